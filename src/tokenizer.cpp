// The host code of tokenizer/.
#include "tenon/tokenizer/bpe-inl.h"
#include "tenon/tokenizer/padding-inl.h"
#include "tenon/tokenizer/stream_decoder-inl.h"
