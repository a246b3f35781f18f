"""Random templates that exercise every construct of chat templates."""
import random

VARIABLES = {
    "name": "Ada Lovelace", "empty": "", "spaces": "  two  words \n", "greek": "ΑΣ ΣΑΣ straße ﬁ İ", "quote": "it's <b>\"x\" & \\ é\u2028</b>",
    "n": 7, "zero": 0, "minus": -3, "half": 0.5, "big": 1e22, "tiny": 1.5e-7, "third": 1 / 3, "yes": True, "no": False, "nothing": None,
    "numbers": [3, 1, 2, 10, -5], "words": ["pear", "Apple", "fig", "apple", "Zoë"], "mixed": [1, "a", None, True, 2.5, [1], {"k": "v"}],
    "nested": [[1, 2], [3, [4, 5]], []], "config": {"b": 1, "a": [1, {"x": None}], "C": "text", "items": "shadow", "d": {"e": {"f": "deep"}}},
    "people": [{"name": "Bo", "age": 31, "tags": ["x"]}, {"name": "al", "age": 25, "tags": []}, {"name": "Cy", "age": 31}],
    "none_dict": {}, "long": "the quick brown fox jumps over the lazy dog " * 3, "number_text": " 42 ", "float_text": "3.75e1", "lines": "a\n\n b\r\nc\n",
}
BY_TYPE = {
    "str": ["name", "empty", "spaces", "greek", "quote", "long", "number_text", "float_text", "lines"],
    "int": ["n", "zero", "minus"], "num": ["n", "zero", "minus", "half", "third", "big", "tiny"], "bool": ["yes", "no"],
    "list": ["numbers", "words", "mixed", "nested", "people"], "dict": ["config", "none_dict"], "any": list(VARIABLES) + ["missing"],
}


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.scopes = [{}]
        self.loops = 0
        self.macros = []
        self.names = 0

    def pick(self, items):
        return self.random.choice(items)

    def chance(self, p):
        return self.random.random() < p

    # ------------------------------------------------------------ expressions
    def expression(self, kind="any", depth=3):
        if kind == "any":
            kind = self.pick(["str", "str", "int", "num", "bool", "list", "dict", "leaf"])
        if kind == "leaf" or self.chance(0.03):
            return self.pick(BY_TYPE["any"])
        if depth <= 0 or self.chance(0.2):
            return self.leaf(kind)
        text = getattr(self, "make_" + kind)(depth - 1)
        return f"({text})" if self.chance(0.93) else text

    def leaf(self, kind):
        own = [name for scope in self.scopes for name, its in scope.items() if its == kind]
        if own and self.chance(0.5):
            return self.pick(own)
        if kind == "str" and self.chance(0.5):
            return self.pick(["'a'", '"it\'s"', "'x,y;z'", "'\\n'", "'\\u00e9\\x41\\t'", "''", "'ab' 'cd'", "' '", "'Hello World'", "'.'"])
        if kind == "int" and self.chance(0.5):
            return self.pick(["0", "1", "2", "3", "10", "-1", "1_000", "0x1F", "0b101", "loop.index" if self.loops else "5"])
        if kind == "num" and self.chance(0.5):
            return self.pick(["1.5", "2.0", "1e3", "0.1", "-2.5", "3", "1e16", "1.25e-5"])
        if kind == "bool" and self.chance(0.5):
            return self.pick(["true", "false", "True", "loop.first" if self.loops else "False"])
        if kind == "list" and self.chance(0.3):
            return self.pick(["[]", "[1, 2, 3]", "['b', 'a']", "(1, 2)", "[none, true]", "()", "('one',)", "range(4)|list"])
        if kind == "dict" and self.chance(0.3):
            return self.pick(["{}", "{'a': 1, 'b': 'two'}", "{1: 'x', none: 2}", "{'k': [1, 2]}"])
        return self.pick(BY_TYPE[kind])

    def make_str(self, d):
        s, n, l = (lambda: self.expression("str", d)), (lambda: self.expression("int", d)), (lambda: self.expression("list", d))
        e, small = (lambda: self.expression("any", d)), (lambda: self.pick(["0", "1", "2", "3", "-1", "-2", "5"]))
        sep = self.pick(["' '", "','", "'a'", "'l'", "', '", "'\\n'", "'th'"])
        return self.pick([
            lambda: f"({s()} + {s()})", lambda: f"({s()} ~ {e()} ~ {s()})", lambda: f"({s()} * {small()})",
            lambda: f"{s()}|{self.pick(['upper', 'lower', 'title', 'capitalize', 'trim', 'string', 'reverse', 'escape|string|length|string'])}",
            lambda: f"({s()}).{self.pick(['upper', 'lower', 'title', 'capitalize', 'strip', 'lstrip', 'rstrip'])}()",
            lambda: f"({s()}).{self.pick(['strip', 'lstrip', 'rstrip'])}({sep})", lambda: f"{s()}|trim({sep})",
            lambda: f"({s()}).replace({sep}, {s()})", lambda: f"{s()}|replace({sep}, {s()}, {small()})",
            lambda: f"({s()}).replace('', '-')", lambda: f"{l()}|join({sep})", lambda: f"{sep}.join({self.pick(['words', '[name, empty]', s()])})",
            lambda: f"{e()}|tojson", lambda: f"{e()}|tojson(indent={self.pick(['2', '0', 'none', 'n'])})",
            lambda: f"{e()}|tojson(ensure_ascii=true)", lambda: f"config|tojson(separators=(',', ':'), sort_keys={self.pick(['true', 'false'])})",
            lambda: f"({s()})[{small()}:{small()}]", lambda: f"({s()})[::{self.pick(['-1', '2', '-2', '3'])}]", lambda: f"({s()})[{small()}:]",
            lambda: f"({s()})[:{small()}]", lambda: f"({s()})[{small()}]|default('none', true)", lambda: f"{e()}|string",
            lambda: f"({s()} if {self.expression('bool', d)} else {s()})", lambda: f"({s()} if {self.expression('bool', d)})",
            lambda: f"({s()}).split({sep})[{small()}]", lambda: f"({s()}).split()|join('|')", lambda: f"({s()}).rsplit({sep}, {small()})|join('#')",
            lambda: f"({s()}).split(none, {small()})|join('|')", lambda: f"({s()}).rsplit(none, {small()})|join('|')", lambda: f"({s()}).partition({sep})|join('/')",
            lambda: f"({s()}).rpartition({sep})|join('/')", lambda: f"({s()}).removeprefix({sep}).removesuffix({sep})",
            lambda: f"({s()}).splitlines({self.pick(['', 'true'])})|join('$')", lambda: f"({s()}).center({self.pick(['9', '12', '30'])}, '*')",
            lambda: f"({s()}).ljust(8, '.').rjust(12)", lambda: f"{s()}|indent({self.pick(['2', '4, true', '1, true, true', 'width=3, blank=true'])})",
            lambda: f"""{s()}|truncate({self.pick(['9', '12, true', '20, false, "~"', '10, true, "", 0'])})""", lambda: f"{s()}|center(20)",
            lambda: f"'{self.pick(['%s', '%s-%s', '%d', '%.2f', '%%', '%r'])}' % ({self.pick([n(), s(), '(' + s() + ', ' + n() + ')'])})",
            lambda: f"'{self.pick(['{}', '{}/{}', '{0}{1}{0}', '{{}}', '{a}'])}'.format({s()}, {n()}, a={e()})", lambda: f"'%s=%s'|format({s()}, {e()})",
            lambda: f"{l()}|first|string", lambda: f"{l()}|last|string", lambda: f"words|{self.pick(['min', 'max', 'first', 'last'])}",
            lambda: f"({n()}|string).zfill(5)", lambda: f"strftime_now('{self.pick(['%d %b %Y', '%Y-%m-%d %H:%M:%S', '%A, %B %-d', '%I:%M %p %j %y', '%F %T %e'])}')",
            lambda: f"(config.C or {s()})", lambda: f"config['C']", lambda: f"{e()}|default({s()}, {self.pick(['true', 'false'])})",
            lambda: f"people[{self.pick(['0', '1', '-1'])}].name", lambda: f"""config.d.e{self.pick(['.f', '["f"]', '.g'])}|default('?')""",
            lambda: self.macro_call(d),
        ])()

    def macro_call(self, d):
        if not self.macros:
            return self.leaf("str")
        name, parameters = self.pick(self.macros)
        arguments = [self.expression("any", min(d, 1)) for _ in range(self.random.randint(0, parameters))]
        if arguments and self.chance(0.3):
            arguments[-1] = f"p{len(arguments) - 1}=" + arguments[-1]
        return f"{name}({', '.join(arguments)})"

    def make_int(self, d):
        i, e, s, l = (lambda: self.expression("int", d)), (lambda: self.expression("any", d)), (lambda: self.expression("str", d)), (lambda: self.expression("list", d))
        return self.pick([
            lambda: f"({i()} {self.pick(['+', '-', '*'])} {i()})", lambda: f"({i()} {self.pick(['//', '%'])} {self.pick(['2', '3', '-4', 'n'])})",
            lambda: f"{s()}|length", lambda: f"{l()}|length", lambda: f"{l()}|count", lambda: f"{self.expression('dict', d)}|length", lambda: f"{e()}|int(4)" if self.chance(0.5) else f"{s()}|int",
            lambda: f"-{i()}", lambda: f"+{i()}", lambda: f"{i()}|abs", lambda: f"numbers[{self.pick(['0', '1', '-1', 'n'])}]|default(3)", lambda: f"numbers|{self.pick(['sum', 'min', 'max', 'first', 'last'])}",
            lambda: f"people|sum(attribute='age')", lambda: f"({s()}).{self.pick(['find', 'count', 'rfind'])}('{self.pick(['a', 'l', 'th', 'z', ''])}')",
            lambda: f"({i()} if {self.expression('bool', d)} else {i()})", lambda: f"2 ** {self.pick(['3', '0', '10'])}", lambda: f"{self.expression('num', d)}|int",
            lambda: f"({l()}).count(1)", lambda: f"words.index('{self.pick(['fig', 'pear'])}')", lambda: f"({self.expression('bool', d)} + {i()})",
        ])()

    def make_num(self, d):
        x = lambda: self.expression("num", d)
        return self.pick([
            lambda: f"({x()} {self.pick(['+', '-', '*'])} {x()})", lambda: f"({x()} {self.pick(['/', '//', '%'])} {self.pick(['2', '0.5', '-3', '1.5', 'n'])})",
            lambda: f"""{x()}|round({self.pick(['', '1', '2', '0, "ceil"', '1, "floor"', '3, method="common"'])})""", lambda: f"{x()}|abs", lambda: f"{self.expression('str', d)}|float",
            lambda: f"{x()}|float", lambda: f"-{x()}", lambda: f"({x()}) ** {self.pick(['2', '0.5', '-1'])}" if self.chance(0.3) else x(), lambda: f"[{x()}, {x()}]|{self.pick(['max', 'min', 'sum'])}",
        ])()

    def make_bool(self, d):
        e, n, s, b, l = (lambda: self.expression("any", d)), (lambda: self.expression("num", d)), (lambda: self.expression("str", d)), (lambda: self.expression("bool", d)), (lambda: self.expression("list", d))
        simple = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence", "true", "false", "callable"]
        return self.pick([
            lambda: f"({e()} {self.pick(['==', '!='])} {e()})", lambda: f"({n()} {self.pick(['<', '<=', '>', '>='])} {n()})", lambda: f"({s()} {self.pick(['<', '<=', '>', '>='])} {s()})",
            lambda: f"({n()} < {n()} <= {n()})", lambda: f"({s()} {self.pick(['in', 'not in'])} {s()})", lambda: f"({e()} {self.pick(['in', 'not in'])} {l()})",
            lambda: f"({s()} in {self.expression('dict', d)})", lambda: f"({e()} is {self.pick(['', 'not '])}{self.pick(simple)})", lambda: f"({b()} and {b()})", lambda: f"({b()} or {b()})",
            lambda: f"(not {b()})", lambda: f"({self.expression('int', d)} is {self.pick(['odd', 'even', 'divisibleby 3', 'divisibleby(2)'])})",
            lambda: f"({e()} is {self.pick(['eq', 'equalto', 'ne', 'sameas'])}({self.pick(['none', 'true', '1', 'name'])}))" if self.chance(0.8) else b(),
            lambda: f"({n()} is {self.pick(['lt', 'gt', 'le', 'ge', 'greaterthan', 'lessthan'])} 2)", lambda: f"({e()} is in {l()})",
            lambda: f"({s()} is {self.pick(['upper', 'lower'])})", lambda: f"""({s()}).{self.pick(['startswith', 'endswith'])}({self.pick([s(), '("a", "t")'])})""",
            lambda: f"({s()}).{self.pick(['isspace', 'islower', 'isupper', 'isalpha'])}()", lambda: f"({e()} and true)", lambda: f"({l()} < {l()})" if self.chance(0.1) else b(),
        ])()

    def make_list(self, d):
        e, l, n, s = (lambda: self.expression("any", d)), (lambda: self.expression("list", d)), (lambda: self.expression("int", d)), (lambda: self.expression("str", d))
        small = lambda: self.pick(["0", "1", "2", "-1", "3", "n"])
        key = lambda: self.pick(["name", "age", "tags", "tags.0", "zip"])
        return self.pick([
            lambda: f"[{e()}, {e()}]", lambda: f"({e()}, {e()})", lambda: f"({l()}|list + {l()}|list)", lambda: f"({l()}|list * {self.pick(['0', '1', '2'])})",
            lambda: f"({l()}|list)[{small()}:{small()}]", lambda: f"({l()}|list)[::{self.pick(['-1', '2', '-2'])}]", lambda: f"range({n()}, {self.pick(['5', '9', '-4'])}, {self.pick(['1', '2', '-1'])})|list",
            lambda: f"range({self.pick(['3', '0', 'n'])})", lambda: f"{s()}|list", lambda: f"({s()}).split({self.pick(['', repr(' '), repr(',')])})", lambda: f"{self.expression('dict', d)}|list", lambda: f"{self.expression('dict', d)}.{self.pick(['keys', 'values', 'items'])}()|list",
            lambda: f"{self.expression('dict', d)}|items|list", lambda: f"{self.expression('dict', d)}|dictsort", lambda: f"""{{'b': 1, 'A': 2}}|dictsort({self.pick(['true', 'by="value"', 'reverse=true', 'false, "value", true'])})""",
            lambda: f"words|map('{self.pick(['upper', 'length', 'capitalize', 'title', 'first', 'trim'])}')|list", lambda: f"words|map('replace', 'p', {s()})|list", lambda: f"people|map(attribute='{key()}')|list",
            lambda: f"people|map(attribute='{key()}', default={s()})|list", lambda: f"numbers|{self.pick(['select', 'reject'])}('{self.pick(['odd', 'even'])}')|list", lambda: f"mixed|{self.pick(['select', 'reject'])}('{self.pick(['string', 'number', 'none', 'defined', 'mapping', 'boolean', 'iterable'])}')|list",
            lambda: f"{l()}|{self.pick(['select', 'reject'])}|list", lambda: f"people|{self.pick(['selectattr', 'rejectattr'])}('{key()}')|list", lambda: f"people|{self.pick(['selectattr', 'rejectattr'])}('age', '{self.pick(['eq', 'gt', 'ne', 'lt', '>='])}', {self.pick(['31', '26', 'n'])})|map(attribute='name')|list",
            lambda: f"people|selectattr('tags', 'defined')|map(attribute='name')|list", lambda: f"people|sort(attribute='{self.pick(['name', 'age', 'age,name'])}'{self.pick(['', ', reverse=true'])})|map(attribute='name')|list",
            lambda: f"words|sort({self.pick(['', 'true', 'case_sensitive=true'])})", lambda: f"numbers|sort({self.pick(['', 'reverse=true'])})", lambda: f"words|unique({self.pick(['', 'true'])})|list", lambda: f"{l()}|reverse|list",
            lambda: f"""{l()}|batch({self.pick(['2', '3, none', '2, "x"'])})|list""", lambda: f"numbers|slice({self.pick(['2', '3, 0'])})|list", lambda: f"({l()} if {self.expression('bool', d)} else {l()})", lambda: f"({l()} or {l()})", lambda: f"{l()}|list",
        ])()

    def make_dict(self, d):
        e = lambda: self.expression("any", d)
        return self.pick([
            lambda: f"{{'a': {e()}, 'b': {e()}}}", lambda: f"dict(a={e()}, b={e()})", lambda: f"dict(config, z={e()})", lambda: f"{{{self.expression('str', 0)}: {e()}}}", lambda: "config.d", lambda: "people[0]",
            lambda: f"{{'k': {self.expression('dict', d)}}}.get('k')", lambda: f"config.get('{self.pick(['d', 'x'])}', {{}})", lambda: f"{{'a': 1}}.copy()",
        ])()

    # ------------------------------------------------------------ statements
    def body(self, depth, count=None):
        return "".join(self.statement(depth) for _ in range(count or self.random.randint(1, 3)))

    def block(self, depth, own=None):
        self.scopes.append(own or {})
        text = self.body(depth)
        self.scopes.pop()
        return text

    def name(self):
        self.names += 1
        return f"v{self.names}"

    def tag(self, inner):
        space = self.pick(["", "", "", "\n", "  ", "\n  ", "\n\n"])
        return space + "{%" + self.pick(["", "", "-", "-", "+"][:4 + self.chance(0.2)]) + " " + inner + " " + self.pick(["", "", "-", "-"]) + "%}" + self.pick(["", "", "\n", "\n  ", " "])

    def output(self):
        left, right = self.pick([("{{ ", " }}"), ("{{- ", " }}"), ("{{ ", " -}}"), ("{{- ", " -}}")])
        return self.pick(["", "", "text ", "\n", "  "]) + left + self.expression() + right

    def statement(self, depth):
        if depth <= 0 or self.chance(0.35):
            return self.output()
        kinds = ["output", "output", "text", "comment", "raw", "set", "set", "capture", "condition", "condition", "loop", "loop", "space", "macro", "call", "filter", "with", "generation", "control"]
        return getattr(self, "put_" + self.pick(kinds))(depth - 1)

    def put_output(self, depth):
        return self.output() if self.chance(0.8) else self.tag("print " + self.expression())

    def put_text(self, depth):
        return self.pick(["some text\n", "  indented\n", "<|im_start|>", " { } % # ", "é\t", "line\r\nend\r", "\n\n"])

    def put_comment(self, depth):
        return self.pick(["{# comment #}", "  {#- a\nb -#}  ", "\n  {# c #}\n", "{#+ x +#}\n", "\n \t{# {{ x }} {% if %} #}"])

    def put_raw(self, depth):
        return self.pick(["{% raw %}{{ x }}{% if %}{% endraw %}", "\n  {%- raw -%}  {{ a }}\n  {%- endraw -%}  \n", "{% raw %}\n a {% endraw %}\n", "{% raw %}  {%+ endraw %}"])

    def put_set(self, depth):
        kind = self.pick(["str", "int", "list", "dict", "bool", "num"])
        if self.chance(0.15):
            a, b = self.name(), self.name()
            text = self.tag(f"set {a}, {b} = {self.expression('str')}, {self.expression('int')}")
            self.scopes[-1].update({a: "str", b: "int"})
            return text
        name = self.name() if self.chance(0.7) else self.pick(list(self.scopes[-1]) or [self.name()])
        text = self.tag(f"set {name} = {self.expression(kind)}")
        self.scopes[-1][name] = kind
        return text

    def put_capture(self, depth):
        name = self.name()
        text = self.tag(f"set {name}{self.pick(['', '', ' | upper', ' | trim | title'])}") + self.block(depth) + self.tag("endset")
        self.scopes[-1][name] = "str"
        return text

    def put_condition(self, depth):
        text = self.tag(f"if {self.expression('bool')}") + self.body(depth)
        while self.chance(0.3):
            text += self.tag(f"elif {self.expression('bool')}") + self.body(depth)
        if self.chance(0.5):
            text += self.tag("else") + self.body(depth)
        return text + self.tag("endif")

    def put_loop(self, depth):
        a, b = self.name(), self.name()
        head, own = self.pick([
            (f"for {a} in {self.expression('list')}", {}), (f"for {a} in numbers", {a: "int"}), (f"for {a} in words", {a: "str"}), (f"for {a} in {self.expression('str', 1)}", {a: "str"}),
            (f"for {a}, {b} in {self.expression('dict', 1)}.items()", {a: "str"}), (f"for {a} in {self.expression('dict', 1)}", {a: "str"}), (f"for {a}, {b} in config|dictsort", {a: "str"}),
            (f"for {a} in people", {a: "dict"}), (f"for {a} in range({self.pick(['3', '0', '5'])})", {a: "int"}), (f"for {a} in numbers if {a} is {self.pick(['odd', 'even'])}", {a: "int"}),
            (f"for {a} in words if {a}|length > 3", {a: "str"}), (f"for ({a}, {b}) in [(1, 'x'), (2, 'y')]", {a: "int", b: "str"}), (f"for {a} in missing", {}), (f"for {a} in words|map('upper')", {a: "str"}),
            (f"for {a} in {self.expression('list', 1)}[:4]|reverse", {}),
        ])
        self.loops += 1
        inner = self.block(depth, dict(own))
        if self.chance(0.5):
            inner += "{{ " + self.pick(["loop.index", "loop.index0 ~ '/' ~ loop.length", "loop.first", "loop.last", "loop.revindex", "loop.revindex0", "loop.previtem|default('-')|string", "loop.nextitem|default('-')|string",
                                        "loop.cycle('a', 'b', 'c')", f"loop.changed({a}|string)", "loop.depth ~ loop.depth0", a]) + " }}"
        self.loops -= 1
        text = self.tag(head) + inner
        if self.chance(0.25):
            text += self.tag("else") + self.block(depth)
        return text + self.tag("endfor")

    def put_control(self, depth):
        if not self.loops:
            return self.output()
        return self.tag(f"if {self.pick(['loop.index > 2', self.expression('bool', 1)])}") + self.tag(self.pick(["break", "continue"])) + self.tag("endif")

    def put_space(self, depth):
        name = self.name()
        text = self.tag(f"set {name} = namespace({self.pick(['x=0, y=empty', 'x=1', chr(123) + chr(39) + 'x' + chr(39) + ': 2' + chr(125)])})")
        a = self.name()
        text += self.tag(f"for {a} in {self.pick(['numbers', 'words', 'range(3)'])}") + self.tag(f"set {name}.x = {self.pick([name + '.x + 1', 'loop.index * 2'])}")
        if self.chance(0.5):
            text += self.tag(f"set {name}.y = {name}.y|default('', true) ~ {a}")
        return text + self.tag("endfor") + "{{ " + name + self.pick([".x", ".y", ".z", "['x']"]) + " }}"

    def put_macro(self, depth):
        name, count = f"m{self.name()}", self.random.randint(0, 3)
        parameters = [f"p{i}" for i in range(count)]
        head = ", ".join(p + (f"={self.expression('any', 1)}" if i >= count - 1 and self.chance(0.6) else "") for i, p in enumerate(parameters))
        loops, self.loops = self.loops, 0
        inner = self.block(depth, {p: "opaque" for p in parameters}) + "".join("{{ " + p + " }}" for p in parameters)
        if self.chance(0.2):
            inner += "{{ varargs|list }}{{ kwargs }}"
        if self.chance(0.2):
            inner += "{{ caller() if caller else 'none' }}"
        self.loops = loops
        text = self.tag(f"macro {name}({head})") + inner + self.tag("endmacro")
        if len(self.scopes) == 1:
            self.macros.append((name, count))
        return text + "{{ " + name + "(" + ", ".join(self.expression("any", 1) for _ in range(count)) + ") }}"

    def put_call(self, depth):
        name = f"c{self.name()}"
        argument = self.pick(["", "1, 'two'"])
        loops, self.loops = self.loops, 0
        text = self.tag(f"macro {name}(a=1)") + "[{{ caller(" + argument + ") }}]{{ a }}" + self.tag("endmacro")
        text += self.tag(f"call{self.pick(['(q, r=2)', '(q=0, r=1)']) if argument else ''} {name}({self.pick(['', '5', 'a=name'])})") + self.block(depth) + ("{{ q }}{{ r }}" if argument else "") + self.tag("endcall")
        self.loops = loops
        return text

    def put_filter(self, depth):
        return self.tag(f"""filter {self.pick(['upper', 'trim', 'replace("e", "3")', 'upper|trim', 'indent(2)', 'length|string'])}""") + self.block(depth) + self.tag("endfilter")

    def put_with(self, depth):
        name = self.name()
        return self.tag(f"with {name} = {self.expression('str')}") + self.block(depth, {name: "str"}) + self.tag("endwith")

    def put_generation(self, depth):
        loops, self.loops = self.loops, 0
        text = self.tag("generation") + self.block(depth) + self.tag("endgeneration")
        self.loops = loops
        return text


def program(seed):
    """The template of a seed."""
    generator = Generator(seed)
    return generator.body(3, generator.random.randint(2, 6)) + generator.random.choice(["", "\n", "\n\n", "end"])
