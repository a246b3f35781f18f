"""Shared by the tests of conversations: the default model with a chat template."""
import json

from support import TALES, ProgramTest, as_lines, json_lines, tenon

END = "<|endoftext|>"  # a special token of the default model
END_ID = 4095
TEMPLATE = ("{% for m in messages %}{{ m.role }}\n{{ m.content }}" + END + "{% endfor %}"
            "{% if add_generation_prompt %}assistant\n{% endif %}")


class ChatTest(ProgramTest):
    def chat_model(self, template=TEMPLATE, name="chat-model"):
        """A folder with the default model and this chat template: a text, or a list of named ones."""
        model = self.folder / name
        model.mkdir(exist_ok=True)
        for file in ["config.json", "model.safetensors", "vocab.json", "merges.txt"]:
            if not (model / file).exists():
                (model / file).symlink_to(TALES / file)
        config = json.loads((TALES / "tokenizer_config.json").read_text())
        if template is not None:
            config["chat_template"] = template
        (model / "tokenizer_config.json").write_text(json.dumps(config))
        return model

    def lines(self, model, requests, *options, status=0):
        """The answers of `tenon run` with this model."""
        done = tenon("run", "--model", model, "--threads", 1, *options, stdin=as_lines(requests))
        self.assertEqual(done.returncode, status, done.stderr)
        return json_lines(done.stdout)

    def tokens(self, text):
        (row,) = json_lines(tenon("tokens", "--model", TALES, stdin=as_lines([{"text": text}])).stdout)
        return row["ids"]

    def prompt(self, *turns):
        """The ids of a conversation with TEMPLATE. Messages are ordinary text, whatever they spell."""
        ids = []
        for role, content in turns:
            ids += self.tokens(f"{role}\n{content}") + [END_ID]
        return ids + self.tokens("assistant\n")


def messages(*turns):
    return [{"role": role, "content": content} for role, content in turns]
