#!/usr/bin/env bash
# run.sh SOURCE PROGRAM CHECK [OPTIONS]: runs one check of the reference data against the program, or skips (77).
set -euo pipefail

source_dir=$1 program=$2 check=$3 options=${4-}
reference=${TENON_REFERENCE_DIR:-$source_dir/../shared}
quoted=$(printf '%q' "$program")

if [[ ! -d $reference/golden ]]; then
  echo "skipped: no reference data; it is looked for in ../shared beside the repository and in TENON_REFERENCE_DIR"
  exit 77
fi
reference=$(cd "$reference" && pwd)

# Adapters and other model families are not in this version.
adapter_cases=(ok_adapter)
llama_cases=(ok_llama ok_llama_old_rope_scaling_key cfg_kv_heads_do_not_divide cfg_untied_without_head
  tok_json_truncated tok_json_unigram)

case $check in
  golden)
    exec python3 "$reference/checks/golden_check.py" --cmd "$quoted" --skip-adapters --extra "$options" \
      --only gpt2 gpt2_headdim64 gpt2_sharded_f16
    ;;
  golden_tales)
    exec python3 "$reference/checks/golden_check.py" --cmd "$quoted" --skip-adapters \
      --cases "$source_dir/examples/models" --only tales
    ;;
  tokens)
    exec python3 "$reference/checks/tokens_check.py" --cmd "$quoted"
    ;;
  malformed)
    exec python3 "$reference/malformed/check_malformed.py" "$reference/malformed" dev \
      --cmd "$quoted check --model {model} --adapter-root {root} --adapter-id {id}" \
      --only st idx cfg fs tok w ok --skip "${adapter_cases[@]}" "${llama_cases[@]}"
    ;;
  promise_gpt2)
    exec python3 "$reference/checks/promise_check.py" --cmd "$quoted" --base-options "$options" --model "$reference/golden/gpt2"
    ;;
  promise_tales)
    exec python3 "$reference/checks/promise_check.py" --cmd "$quoted" --base-options "$options" \
      --model "$source_dir/examples/models/tales"
    ;;
  *)
    echo "run.sh: no such check: $check" >&2
    exit 2
    ;;
esac
