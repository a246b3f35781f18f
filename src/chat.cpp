// The host code of chat/.
#include "tenon/chat/template-inl.h"
