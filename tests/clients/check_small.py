"""lorax-client and openai with tenon-serve-small: one complete answer and one stream each, with an adapter and without."""
import os
import re
import subprocess

import lorax
import openai

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 2, "examples", "models", "tales")


def main():
    process = subprocess.Popen([os.environ["TENON_SERVE"], os.path.normpath(MODEL), "0"], stderr=subprocess.PIPE, encoding="utf-8")
    try:
        url = re.fullmatch(r"listening on (http://\S+)\n", process.stderr.readline())[1]
        for adapter in [None, "weather"]:
            ours = lorax.Client(url)
            whole = ours.generate("The king said", max_new_tokens=8, adapter_id=adapter)
            assert whole.generated_text and whole.details.generated_tokens == 8 == len(whole.details.tokens), whole
            events = list(ours.generate_stream("The king said", max_new_tokens=8, adapter_id=adapter))
            assert "".join(event.token.text for event in events) == events[-1].generated_text == whole.generated_text, events
            theirs = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0).completions
            asked = dict(model=adapter or "tales", prompt="The king said", max_tokens=8, temperature=0)
            assert theirs.create(**asked).choices[0].text == whole.generated_text
            chunks = list(theirs.create(stream=True, **asked))
            assert "".join(chunk.choices[0].text for chunk in chunks) == whole.generated_text
            assert [chunk.choices[0].finish_reason for chunk in chunks] == [None] * 7 + ["length"]
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()
