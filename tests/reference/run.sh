#!/usr/bin/env bash
# run.sh SOURCE PROGRAM CHECK [OPTIONS [MORE]]: runs one check of the reference data against the program, or skips (77).
set -euo pipefail

source_dir=$1 program=$2 check=$3 options=${4-} more=${5-}
reference=${TENON_REFERENCE_DIR:-$source_dir/../shared}
quoted=$(printf '%q' "$program")

if [[ ! -d $reference/golden ]]; then
  echo "skipped: no reference data; it is looked for in ../shared beside the repository and in TENON_REFERENCE_DIR"
  exit 77
fi
reference=$(cd "$reference" && pwd)
options=${options//\{reference\}/$reference}

case $check in
  golden)
    exec python3 "$reference/checks/golden_check.py" --cmd "$quoted" --extra "$options"
    ;;
  families)  # without Falcon RW: its reference adds ALiBi twice, as transformers does with eager attention alone (docs/decisions/0026)
    mapfile -t cases < <(find "$reference/golden_families" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | grep -vx falcon_rw_alibi | sort)
    exec python3 "$reference/checks/golden_check.py" --cmd "$quoted" --extra "$options" --cases "$reference/golden_families" --only "${cases[@]}"
    ;;
  mixtures)
    exec python3 "$reference/checks/golden_check.py" --cmd "$quoted" --extra "$options" --cases "$reference/golden_moe"
    ;;
  promise_families)
    for case in "$reference"/golden_families/*/ "$reference"/golden_moe/*/; do
      echo "$case"
      python3 "$reference/checks/promise_check.py" --vocab 300 --cmd "$quoted" --model "$case"
    done
    ;;
  adapter_kinds)  # OPTIONS as in `golden`
    exec python3 "$reference/checks/golden_check.py" --cmd "$quoted" --extra "$options" --cases "$reference/golden_adapters"
    ;;
  heads)  # classification heads and embeddings, of models and of adapters
    exec python3 "$reference/checks/heads_check.py" --cmd "$quoted"
    ;;
  adapters_exact_or_refused)
    exec python3 "$reference/checks/refuse_or_exact_check.py" --cmd "$quoted"
    ;;
  promise_adapter_kinds)  # OPTIONS is the family: adapters of every kind over one base, prompts with invocations
    shopt -s nullglob
    kinds=("$reference/golden_adapters/$options"_{alora,adalora,dora,ia3,bias,modules_to_save,trainable_tokens}/adapters/*
           "$reference/golden_adapters/$options"_vera/adapters/vera)
    exec python3 "$reference/checks/promise_check.py" --vocab 200 --insert 17,5,140 --cmd "$quoted" \
      --model "$reference/golden_adapters/${options}_alora" --adapters "${kinds[@]}"
    ;;
  golden_gpt2)
    exec python3 "$reference/checks/golden_check.py" --cmd "$quoted" --extra "$options" \
      --only gpt2 gpt2_headdim64 gpt2_sharded_f16 --tolerance "${more:-1e-3}"
    ;;
  golden_tales)
    exec python3 "$reference/checks/golden_check.py" --cmd "$quoted" \
      --cases "$source_dir/examples/models" --only tales
    ;;
  tokens)
    exec python3 "$reference/checks/tokens_check.py" --cmd "$quoted"
    ;;
  # Without two that are no errors: an eos outside the vocabulary, which transformers never reaches, and an adapter that
  # says bias "all" and has no biases, for which PEFT leaves the model's.
  malformed)
    exec python3 "$reference/malformed/check_malformed.py" "$reference/malformed" dev --skip cfg_eos_out_of_range ad_bias_all \
      --cmd "$quoted check --model {model} --adapter-root {root} --adapter-id {id}"
    ;;
  # Adapters in a batch, applied in each way, and adapters mixed with plain rows. OPTIONS is the case.
  promise_adapters)
    case_dir=$reference/golden/$options
    exec python3 "$reference/checks/promise_check.py" --cmd "$quoted" --base-options "$more" --model "$case_dir" \
      --adapters "$case_dir"/adapters/* --configs "--batch 8" "--batch 3 --token-budget 7" "--batch 64 --token-budget 16" \
      "--lora gathered --batch 16 --cache-tokens {cache}" "--lora looped --batch 16 --scheduler static" \
      "--lora gathered --batch 7 --threads 1" "--lora looped --batch 13 --token-budget 5 --threads 1" \
      "--batch 13 --scheduler fair --token-budget 5"
    ;;
  constrain)  # schemas, regexes and grammars: no false accept, all of tier 1 right, and 96 % of all
    out=$(python3 "$reference/schemas/run_check.py" --cmd "$quoted constrain $options" \
      "$reference"/schemas/{schemas,schemas_own,lexical,regex,grammar}.jsonl --timeout 60) || { echo "$out"; exit 1; }
    echo "$out"
    awk '$2 == 1 && $3 != $4 { wrong = 1 } $1 == "TOTAL" && $4 < 96 { wrong = 1 } END { exit wrong || NR == 0 }' <<<"$out"
    ;;
  promise_gpt2)
    exec python3 "$reference/checks/promise_check.py" --cmd "$quoted" --base-options "$options" --model "$reference/golden/gpt2"
    ;;
  promise_paged)  # MORE is the case; for engines that the program has with the paged cache only
    exec python3 "$reference/checks/promise_check.py" --cmd "$quoted" --base-options "$options" \
      --model "$reference/golden/$more" --configs "--batch 8" "--batch 3 --token-budget 7" \
      "--batch 64 --token-budget 16" "--batch 16 --cache-tokens {cache}" "--batch 16 --scheduler static" \
      "--batch 7 --threads 1" "--batch 13 --scheduler fair --token-budget 5"
    ;;
  head)  # MORE is the case: an int8 copy of the head changes no answer of greedy requests
    requests=$(for i in {0..19}; do
      printf '{"id": %d, "input_ids": [%d, %d, %d], "max_new_tokens": 16}\n' "$i" $((i + 1)) $((7 * i % 90)) $((3 * i % 50))
    done)
    # shellcheck disable=SC2086  # options are words
    answers() { "$program" run --model "$reference/golden/$more" $options "$@" <<<"$requests" 2>/dev/null; }
    plain=$(answers --batch 16)
    [[ $(wc -l <<<"$plain") == 20 && $plain != *error* ]] || { echo "$plain"; exit 1; }
    for batch in 1 3 16; do
      diff <(answers --batch "$batch" --head int8_exact) <(echo "$plain") || exit 1
    done
    ;;
  promise)  # OPTIONS is the case
    exec python3 "$reference/checks/promise_check.py" --cmd "$quoted" --model "$reference/golden/$options"
    ;;
  promise_window)  # compared with paged caches: a window forgets positions, and the answers stay. No prefixes are shared
    exec python3 "$reference/checks/promise_check.py" --cmd "$quoted" --model "$reference/golden/$options" --no-counters \
      --configs "--cache window --batch 8" "--cache window --batch 3 --token-budget 7" \
      "--cache window --batch 16 --cache-tokens 96" "--cache window --batch 16 --cache-tokens 64 --token-budget 9" \
      "--cache window --batch 7 --threads 1" "--cache window --batch 13 --scheduler fair --token-budget 5" \
      "--cache window --batch 5 --scheduler static" "--cache window --attention flash --scheduler sequential"
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
