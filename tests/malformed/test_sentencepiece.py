"""Malformed tokenizer.model files end as one readable error."""
import pathlib
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "program"))

import support
from support import ProgramTest, tenon

SOUND = (pathlib.Path(__file__).resolve().parents[1] / "tokenizer" / "sentencepiece" / "bpe.model").read_bytes()


def varint(value):
    out = b""
    while value >= 0x80:
        out += bytes([0x80 | value & 0x7F])
        value >>= 7
    return out + bytes([value])


def message(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def piece(text, score=0.0, kind=1):
    return message(1, message(1, text) + varint(2 << 3 | 5) + struct.pack("<f", score) + varint(3 << 3) + varint(kind))


def cases():
    """(name, bytes, words of the error)"""
    yield "empty", b"", ["no pieces"]
    yield "a text", b"#version: 0.2\nt h\n", []
    yield "cut in a piece", SOUND[:1000], ["longer than the file"]
    yield "cut in a number", SOUND + b"\x18", ["ends within"]
    yield "an endless number", SOUND + b"\x18" + b"\xff" * 12, ["10 bytes"]
    yield "a group", SOUND + b"\x0b", ["wire type"]
    yield "field 0", SOUND + b"\x00\x00", ["wrong number"]
    yield "a length beyond memory", SOUND + b"\x0a" + varint(2**63), ["longer than the file"]
    yield "a piece twice", SOUND + piece(b"t"), ["pieces[", "already"]
    yield "an empty piece", SOUND + piece(b""), ["pieces[", "empty"]
    yield "no UTF-8", SOUND + piece(b"\xff\xfe"), ["pieces[", "UTF-8"]
    yield "an infinite score", SOUND + piece(b"new", float("inf")), ["pieces[", "finite"]
    yield "an unknown type", SOUND + piece(b"new", kind=7), ["pieces[", "type"]
    yield "two unknown tokens", SOUND + piece(b"new", kind=2), ["several unknown"]
    yield "words", SOUND + message(2, b"\x18\x03"), ["model_type", "3 is not supported"]
    yield "rules of 3 bytes", SOUND + message(3, message(2, b"abc")), ["precompiled_charsmap", "too short"]
    yield "rules beyond the blob", SOUND + message(3, message(2, struct.pack("<I", 1 << 31) + b"ab")), ["precompiled_charsmap", "wrong size"]
    yield "rules without an end", SOUND + message(3, message(2, struct.pack("<I", 1024) + bytes(1024) + b"x")), ["precompiled_charsmap", "NUL"]


class MalformedSentencePiece(ProgramTest):
    def encode(self, data):
        model = self.folder / "model"
        model.mkdir(exist_ok=True)
        (model / "tokenizer.model").write_bytes(data)
        return tenon("tokens", "--model", model, stdin='{"text": "a"}\n')

    def test_the_sound_file_encodes(self):
        done = self.encode(SOUND)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('{"ids": [', done.stdout)

    def test_each_fault_is_one_readable_error(self):
        for name, data, words in cases():
            with self.subTest(name):
                done = self.encode(data)
                self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                for word in ["tokenizer.model", *words]:
                    self.assertIn(word, done.stderr)


if __name__ == "__main__":
    support.main()
