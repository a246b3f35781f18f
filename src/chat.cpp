// The host code of chat/.
#include "tenon/chat/model_template-inl.h"
#include "tenon/chat/template-inl.h"
