"""Random programs of typed Python, as text. Every program ends, and means the same wherever it runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import contextmanager

WIDTH = {"u8": 8, "u16": 16, "u32": 32, "u64": 64, "i64": 63}
INTEGERS = tuple(WIDTH)
PRELUDE = '''
class Pair(NamedTuple):
    low: u64
    high: u32


class Nest(NamedTuple):
    pair: Pair
    flag: bool
    tail: tuple[i64, u8]


FAST = True
SHIFTS = (1, 7, 13, 40)
TABLE = Constants((3, 1, 4, 1, 5, 9, 2, 2**64 - 1))


def mixed(a, b):
    """A plain helper: its loop is unrolled, its list exists only at compile time."""
    parts = [a, b]
    for k, s in enumerate(SHIFTS):
        parts.append(select(parts[-1] > parts[-2], parts[-1] ^ (parts[-2] << s), parts[-1] + k))
    return parts[-1]


def adder(k):
    @function
    def add_k(x: u64) -> u64:
        return x + k
    return add_k


add_5, add_big = adder(5), adder(2**64 - 9)


@function
def swap(p: Pair, n: Nest) -> tuple[Pair, Nest]:
    q = Pair(u64(p.high), u32(n.pair.low))
    return q, Nest(p, not n.flag, (n.tail[0] - 1, n.tail[1] + 1))


@function
def first(s: Slice[u64]) -> u64:
    return s[0]


@function
def tail(s: Slice[u64], k: u64) -> Slice[u64]:
    assert k <= length(s), "tail too long"
    return s[k:]
'''


class Generator:
    """Text of one module with functions ``f0 .. f(n-1)`` of (u64, i64, u8, Slice[u64]), all with u64 results."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 0
        self.count = 0
        self.scopes: list[dict[str, str]] = []
        self.loops = 0
        self.leaves: list[str] = []
        self.is_leaf = True

    def module(self, functions: int) -> str:
        for k in range(functions):
            self.function(f"f{k}", leaf=k % 4 == 0)
        return PRELUDE + "\n".join(self.lines) + "\n"

    # ---- text

    def put(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str):
        self.put(head)
        self.depth += 1
        self.scopes.append({})
        yield
        self.scopes.pop()
        self.depth -= 1

    def new(self, t: str) -> str:
        self.count += 1
        return f"v{self.count}"

    def declare(self, t: str, value: str) -> str:
        name = self.new(t)
        self.put(f"{name}: {t} = {value}" if self.rng.random() < 0.2 and t in INTEGERS else f"{name} = {value}")
        self.scopes[-1][name] = t
        return name

    def names(self, t: str) -> list[str]:
        return [n for scope in self.scopes for n, kind in scope.items() if kind == t]

    def function(self, name: str, leaf: bool) -> None:
        self.is_leaf, self.loops = leaf, 0
        self.put("")
        self.put("@function")
        self.scopes = [{"a": "u64", "b": "i64", "c": "u8", "data": "slice"}]
        with self.block(f"def {name}(a: u64, b: i64, c: u8, data: Slice[u64]) -> u64:"):
            self.declare("Pair", "Pair(a, u32(c))")
            self.declare("Nest", f"Nest({self.names('Pair')[0]}, a > 9, (b, c))")
            for t in (*INTEGERS, "bool", "Pair"):
                self.declare(t, self.typed(t))
            if self.rng.random() < 0.6:
                self.declare("array", f"Array[u64, {self.rng.randint(1, 6)}]()")
            self.statements(self.rng.randint(3, 8))
            self.put(f"return {self.digest()}")
        if leaf:
            self.leaves.append(name)

    def digest(self) -> str:
        parts = [f"u64({n})" for t in (*INTEGERS, "bool") for n in self.names(t)]
        parts += [f"{n}.low" for n in self.names("Pair")] + [f"u64({n}.tail[1])" for n in self.names("Nest")]
        parts += [f"{n}[0]" for n in self.names("array")]
        text = parts[0]
        for p in parts[1:]:
            text = f"rotl({text}, 9) + ({p})"
        return text

    # ---- expressions

    def typed(self, t: str, deep: int = 2) -> str:
        """An expression of type ``t`` that is not a bare literal."""
        return {"bool": self.condition, "Pair": self.pair, "Nest": self.nest}.get(t, lambda d: self.integer(t, d))(deep)

    def literal(self, t: str) -> int:
        high = 2 ** WIDTH[t] - 1
        low = -high - 1 if t == "i64" else 0
        some = self.rng.randint(low, high)
        return self.rng.choice([low, high, 0, 1, 2, 3, self.rng.randint(0, 200) % (high + 1), some])

    def integer(self, t: str, deep: int) -> str:
        if deep == 0 or self.rng.random() < 0.2:
            return self.rng.choice([*self.names(t), f"{t}({self.literal(t)})"])
        return self.rng.choice(self.forms(t))(t, deep - 1)

    def forms(self, t: str) -> list[Callable[[str, int], str]]:
        forms = [self.arithmetic, self.arithmetic, self.arithmetic, self.with_literal, self.shift, self.convert,
                 self.unary, self.selected, self.conditional]
        if t == "i64":
            return [*forms, lambda t, d: f"{self.rng.choice(['sdiv', 'srem'])}({self.typed(t, d)}, {self.typed(t, d)})",
                    lambda t, d: f"{self.rng.choice(self.names('Nest'))}.tail[0]"]
        forms += [lambda t, d: f"{self.typed(t, d)} {self.rng.choice(['//', '%'])} ({self.typed(t, d)})",
                  lambda t, d: f"rotl({self.typed(t, d)}, {self.rng.randint(0, 70)})",
                  lambda t, d: f"umin({self.typed(t, d)}, {self.typed(t, d)})"]
        if t == "u64":
            forms += [lambda t, d: f"mulhi({self.typed(t, d)}, {self.typed(t, d)})", self.element, self.element,
                      lambda t, d: f"mixed({self.typed(t, d)}, {self.typed(t, d)})", self.call, self.call,
                      lambda t, d: f"{self.rng.choice(self.names('Pair'))}.low"]
        return forms

    def arithmetic(self, t: str, d: int) -> str:
        return f"({self.typed(t, d)} {self.rng.choice('+-*&|^')} {self.typed(t, d)})"

    def with_literal(self, t: str, d: int) -> str:
        sides = [self.typed(t, d), f"({self.literal(t)})"]
        self.rng.shuffle(sides)
        return f"({sides[0]} {self.rng.choice('+-*&|^')} {sides[1]})"

    def shift(self, t: str, d: int) -> str:
        count = self.typed(t, d) if self.rng.random() < 0.5 else str(self.rng.randint(0, 80))
        return f"({self.typed(t, d)} {self.rng.choice(['<<', '>>'])} {count})"

    def convert(self, t: str, d: int) -> str:
        return f"{t}({self.typed(self.rng.choice([*INTEGERS, 'bool']), d)})"

    def unary(self, t: str, d: int) -> str:
        return f"({self.rng.choice('~-')}{self.typed(t, d)})"

    def selected(self, t: str, d: int) -> str:
        return f"select({self.condition(d)}, {self.typed(t, d)}, {self.typed(t, d)})"

    def conditional(self, t: str, d: int) -> str:
        return f"({self.typed(t, d)} if {self.condition(d)} else {self.typed(t, d)})"

    def element(self, t: str, d: int) -> str:
        holder = self.rng.choice([*self.names("array"), *self.names("slice"), "TABLE"])
        return f"{holder}[{self.index(holder, d)}]"

    def index(self, holder: str, d: int) -> str:
        """Mostly inside, at times outside; never a constant, which would be refused if outside."""
        index = f"({self.typed('u64', d)}) ^ a"
        size = "8" if holder == "TABLE" else f"length({holder})"
        return f"({index}) % {size}" if self.rng.random() < 0.95 else index

    def call(self, t: str, d: int) -> str:
        choices = [f"add_5({self.typed('u64', d)})", f"add_big({self.typed('u64', d)})",
                   f"first({self.rng.choice([*self.names('slice'), *self.names('array')])})"]
        if not self.is_leaf and self.loops < 2:
            args = ", ".join(self.typed(k, d) for k in ("u64", "i64", "u8"))
            choices += [f"{self.rng.choice(self.leaves)}({args}, {self.rng.choice(self.names('slice'))})"] * 3
        return self.rng.choice(choices)

    def condition(self, d: int) -> str:
        if d == 0:
            return self.rng.choice([*self.names("bool"), "(a > 9)"])
        d -= 1
        t = self.rng.choice(INTEGERS)
        return self.rng.choice([
            lambda: f"({self.typed(t, d)} {self.rng.choice(['<', '<=', '>', '>=', '==', '!='])} {self.typed(t, d)})",
            lambda: f"({self.typed(t, d)} {self.rng.choice(['<', '<=', '>', '>=', '==', '!='])} {self.literal(t)})",
            lambda: f"({self.condition(d)} {self.rng.choice(['and', 'or', '&', '|', '^', '=='])} {self.condition(d)})",
            lambda: f"(not {self.condition(d)})",
            lambda: f"{self.rng.choice(self.names('Nest'))}.flag",
        ])()

    def pair(self, d: int) -> str:
        made = f"Pair({self.typed('u64', d)}, {self.typed('u32', d)})"
        known = self.names("Pair")
        return self.rng.choice([made, *known, f"select({self.condition(d)}, {self.rng.choice(known)}, {made})"])

    def nest(self, d: int) -> str:
        made = f"Nest({self.pair(d)}, {self.condition(d)}, ({self.typed('i64', d)}, {self.typed('u8', d)}))"
        return self.rng.choice([made, *self.names("Nest")])

    # ---- statements

    def statements(self, n: int) -> None:
        for _ in range(n):
            self.statement()

    def statement(self) -> None:
        simple = [self.assign, self.assign, self.assign, self.augment, self.fresh, self.store, self.swap,
                  self.sub_slice]
        nested = [self.branch, self.branch, self.count_up, self.repeat, self.match, self.unrolled, self.check]
        room = self.depth < 4
        self.rng.choice(simple + nested if room else simple)()

    def assign(self) -> None:
        t = self.rng.choice([*INTEGERS, "bool", "Pair", "Nest"])
        self.put(f"{self.rng.choice(self.writable(t))} = {self.typed(t)}")

    def writable(self, t: str) -> list[str]:
        return [n for n in self.names(t) if not n.startswith("i_")]

    def augment(self) -> None:
        t = self.rng.choice(INTEGERS)
        op = self.rng.choice(["+=", "-=", "*=", "^=", "|=", "&="])
        self.put(f"{self.rng.choice(self.writable(t))} {op} {self.typed(t)}")

    def fresh(self) -> None:
        t = self.rng.choice([*INTEGERS, "bool", "Pair"])
        self.declare(t, self.typed(t))

    def store(self) -> None:
        arrays = self.names("array") or [self.declare("array", "Array[u64, 3]()")]
        holder = self.rng.choice(arrays)
        self.put(f"{holder}[{self.index(holder, 2)}] {self.rng.choice(['=', '+=', '^='])} {self.typed('u64')}")

    def swap(self) -> None:
        p, n = self.rng.choice(self.names("Pair")), self.rng.choice(self.names("Nest"))
        self.put(f"{p}, {n} = swap({p}, {n})")

    def sub_slice(self) -> None:
        holder = self.rng.choice(self.names("slice"))
        name = self.new("slice")
        part = self.rng.choice(["{}[u64(c) % 2:]", "{0}[:length({0}) - 1]", "tail({}, u64(c) % 2)"])
        self.put(f"{name} = {part.format(holder)}")
        self.scopes[-1][name] = "slice"

    def branch(self) -> None:
        with self.block(f"if {self.condition(2)}:"):
            self.statements(self.rng.randint(1, 3))
        if self.rng.random() < 0.3:
            with self.block(f"elif {self.condition(2)}:"):
                self.statements(self.rng.randint(1, 2))
        if self.rng.random() < 0.6:
            with self.block("else:"):
                self.statements(self.rng.randint(1, 3))
                if self.rng.random() < 0.1:
                    self.put(f"return {self.typed('u64')}")

    def in_loop(self) -> None:
        self.statements(self.rng.randint(1, 3))
        if self.rng.random() < 0.5:
            with self.block(f"if {self.condition(1)}:"):
                self.put(self.rng.choice(["break", "continue", "continue"]))
            self.statements(1)

    def count_up(self) -> None:
        if self.loops >= 2:
            return self.assign()
        self.loops += 1
        name, (lo, n) = f"i_{self.new('u64')}", (self.rng.randint(0, 3), self.rng.randint(0, 5))
        bounds = self.rng.choice([str(n), f"{lo}, {lo + n}", f"u64(c) % 4, {n}", f"{lo}, {lo + 3 * n}, 3",
                                  f"a % 3, a % 3 + {n}", f"{2**64 - 4}, {2**64 - 1}, {self.rng.randint(1, 5)}",
                                  "length(data) % 5"])
        with self.block(f"for {name} in range({bounds}):"):
            self.scopes[-1][name] = "u64"
            self.in_loop()
        self.loops -= 1

    def repeat(self) -> None:
        if self.loops >= 2:
            return self.assign()
        self.loops += 1
        name = f"i_{self.new('u64')}"
        self.put(f"{name} = u64(0)")
        endless = self.rng.random() < 0.3
        head = "while True:" if endless else f"while {name} < {self.rng.randint(0, 5)} and {self.condition(1)}:"
        with self.block(head):
            self.scopes[-1][name] = "u64"
            self.put(f"{name} += 1")
            if endless:
                with self.block(f"if {name} > {self.rng.randint(0, 4)}:"):
                    self.put("break")
            self.in_loop()
        self.scopes[-1][name] = "u64"
        self.loops -= 1

    def match(self) -> None:
        t = self.rng.choice(INTEGERS)
        values = self.rng.sample(range(40), 5)
        reduced = f"{self.typed(t)} & 7" if self.rng.random() < 0.7 else self.typed(t)
        if self.rng.random() < 0.7:
            values = self.rng.sample(range(8), 5)
        with self.block(f"match {reduced}:"):
            for case in (f"{values[0]}", f"{values[1]} | {values[2]}", f"{values[3]}", f"{values[4]}"):
                with self.block(f"case {case}:"):
                    self.statements(1)
            if self.rng.random() < 0.6:
                with self.block("case _:"):
                    self.statements(1)

    def unrolled(self) -> None:
        with self.block(f"for k in unroll(range({self.rng.randint(1, 3)})):"):
            self.put(f"{self.rng.choice(self.writable('u64'))} ^= u64(k) * {self.literal('u64')} + SHIFTS[k]")
            self.assign()

    def check(self) -> None:
        t = self.rng.choice(INTEGERS)
        test = f"{self.typed(t)} != {self.literal(t)} or {self.condition(1)} or a == 17"
        self.put(f'assert {test}, "check {self.count}"')
