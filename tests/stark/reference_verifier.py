"""A second verifier for the proof format, in plain integers and with a Keccak from elsewhere.

Written from docs/protocol.md and sharing nothing with the package's verifier: tables come in as lowered programs,
everything else is done here. Slow, and for tests only; :class:`Refused` says why a proof is no good.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from Crypto.Hash import keccak

P = 2**64 - 2**32 + 1
G = 7
MAGIC, VERSION = b"tailbite", 3
FINAL_LOG, FOLD_LOG = 5, 3
MAX_OUTPUT = 1 << 20
UNIVERSAL, PROGRAM = 1, 2
Ext = tuple[int, int, int]
ZERO: Ext = (0, 0, 0)
ONE: Ext = (1, 0, 0)


class Refused(Exception):
    """The proof is refused."""


def require(ok: bool, why: str) -> None:
    """Refuse unless ``ok``."""
    if not ok:
        raise Refused(why)


# ---------------------------------------------------------------- field and hash


def add(*xs: Ext) -> Ext:
    """Sum in the extension."""
    return sum(x[0] for x in xs) % P, sum(x[1] for x in xs) % P, sum(x[2] for x in xs) % P


def sub(a: Ext, b: Ext) -> Ext:
    """a - b."""
    return (a[0] - b[0]) % P, (a[1] - b[1]) % P, (a[2] - b[2]) % P


def mul(a: Ext, b: Ext) -> Ext:
    """Schoolbook product, then w^3 = 2."""
    c = [0] * 5
    for i in range(3):
        for j in range(3):
            c[i + j] += a[i] * b[j]
    return (c[0] + 2 * c[3]) % P, (c[1] + 2 * c[4]) % P, c[2] % P


def power(a: Ext, e: int) -> Ext:
    """a^e, e >= 0."""
    out = ONE
    while e:
        if e & 1:
            out = mul(out, a)
        a = mul(a, a)
        e >>= 1
    return out


def inverse(a: Ext) -> Ext:
    """1 / a: the product of the two conjugates over the norm, which is in the base field."""
    others = mul(power(a, P), power(power(a, P), P))
    norm = mul(a, others)
    require(norm != ZERO, "division by zero")
    assert norm[1:] == (0, 0)
    return mul(others, base(pow(norm[0], -1, P)))


def base(x: int) -> Ext:
    """A base element."""
    return x % P, 0, 0


def root(log: int) -> int:
    """Generator of the subgroup of 2^log elements."""
    return pow(G, (P - 1) >> log, P)


def digest(words: Iterable[int]) -> tuple[int, ...]:
    """Keccak-256 of words, as words."""
    data = b"".join(w.to_bytes(8, "little") for w in words)
    return unpack(keccak.new(digest_bits=256, data=data).digest())


def unpack(data: bytes) -> tuple[int, ...]:
    """Little-endian words."""
    return tuple(int.from_bytes(data[k:k + 8], "little") for k in range(0, len(data), 8))


# ---------------------------------------------------------------- transcript and stream


class Transcript:
    """Hash chain: a squeeze hashes all that came since the last one, reverses the digest and absorbs it."""

    def __init__(self) -> None:
        self.pending = keccak.new(digest_bits=256)
        self.buffer: list[int] = []

    def absorb(self, words: Sequence[int]) -> None:
        """Words in; what was buffered is lost."""
        self.pending.update(b"".join(w.to_bytes(8, "little") for w in words))
        self.buffer = []

    def squeeze(self) -> bytes:
        """32 bytes."""
        out = self.pending.digest()[::-1]
        self.pending = keccak.new(digest_bits=256, data=out)
        return out

    def next_word(self) -> int:
        """Eight bytes, big-endian."""
        if not self.buffer:
            s = self.squeeze()
            self.buffer = [int.from_bytes(s[k:k + 8], "big") for k in range(0, 32, 8)]
        return self.buffer.pop(0)

    def field(self) -> int:
        """Uniform below p."""
        return next(w for w in iter(self.next_word, None) if w < P)

    def ext(self) -> Ext:
        """Uniform extension element."""
        return self.field(), self.field(), self.field()

    def below(self, bound: int) -> int:
        """Uniform below a bound."""
        return next(w for w in iter(self.next_word, None) if w >= 2**64 % bound) % bound


class Stream:
    """The proof, read front to back."""

    def __init__(self, words: Sequence[int]) -> None:
        self.words, self.at, self.transcript = [int(w) for w in words], 0, Transcript()

    def hint(self, count: int) -> list[int]:
        """Words that are not absorbed: rows and siblings."""
        require(count <= len(self.words) - self.at, "truncated")
        self.at += count
        return self.words[self.at - count:self.at]

    def message(self, count: int) -> list[int]:
        """Words that are absorbed."""
        out = self.hint(count)
        self.transcript.absorb(out)
        return out

    def elements(self, count: int) -> list[Ext]:
        """A message of extension elements."""
        out = canonical(self.message(3 * count))
        return [(out[k], out[k + 1], out[k + 2]) for k in range(0, 3 * count, 3)]


def canonical(words: list[int]) -> list[int]:
    """The words, if all are below p."""
    require(all(w < P for w in words), "not canonical")
    return words


# ---------------------------------------------------------------- the run of the protocol


@dataclass
class Slot:
    """A present table instance."""

    program: Any
    log: int
    fixed: list[Ext] = field(default_factory=list)
    main: list[Ext] = field(default_factory=list)
    following: list[Ext] = field(default_factory=list)
    logup: list[Ext] = field(default_factory=list)
    next_sum: Ext = ZERO
    sigma: Ext = ZERO


@dataclass
class Term:
    """An opened value: which part of which tree's row it speaks of, and at which point."""

    tree: str
    log: int
    offset: int
    width: int
    following: bool
    value: Ext = ZERO


class Run:
    """One verification.

    ``frozen`` makes it the lax verifier of tests/test_fiat_shamir.py: challenges by name, in the order in which they
    are drawn, that are replayed in place of those of the transcript; and "output", what is absorbed for the output.
    """

    def __init__(self, keyed: Any, words: Sequence[int], frozen: Mapping[str, Sequence[Any]] | None = None) -> None:
        self.keyed, self.system, self.params = keyed, keyed.system, keyed.params
        self.blowup = keyed.params.log_blowup
        self.s = Stream(words)
        self.t = self.s.transcript
        self.frozen = {name: list(values) for name, values in (frozen or {}).items()}

    def replayed(self, name: str, drawn: Any) -> Any:
        """The challenge that counts: the one drawn, unless its name is frozen."""
        return self.frozen[name].pop(0) if name in self.frozen else drawn

    def challenge(self, name: str) -> Ext:
        """An extension element of the transcript."""
        return self.replayed(name, self.t.ext())

    def verify(self, program_id: bytes) -> bytes:
        """The public output, or :class:`Refused`."""
        self.statement(program_id)
        self.commitments()
        self.values()
        self.balance()
        for log in self.logs:
            self.constraints(log)
        self.low_degree()
        require(self.s.at == len(self.s.words), "words are left over")
        return self.output

    def output_message(self, count: int) -> list[int]:
        """A part of the public output, which is absorbed."""
        if "output" not in self.frozen:
            return self.s.message(count)
        words = self.s.hint(count)
        self.t.absorb(self.replayed("output", words))
        return words

    # ------------------------------------------------------------ statement

    def statement(self, program_id: bytes) -> None:
        """Header, program, public output and table list."""
        header = self.s.message(3)
        require(header == [*unpack(MAGIC), VERSION, self.params.number], "header")
        self.t.absorb(unpack(self.keyed.vm_id))
        owners = self.system.program_tables
        program = self.s.message(5 + len(owners))
        self.entry, self.program_root = program[0], program[-4:]
        expected = digest([*unpack(b"tb prog\0"), *unpack(self.keyed.vm_id), *program])
        require(expected == unpack(program_id), "another program")
        self.t.absorb(unpack(program_id))
        (size,) = self.output_message(1)
        require(size <= MAX_OUTPUT, "output too long")
        self.output_words = self.output_message(-(-size // 8))
        data = b"".join(w.to_bytes(8, "little") for w in self.output_words)
        require(not any(data[size:]), "output padding")
        self.output = data[:size]
        if self.system.output_bus is None:
            require(size == 8 * self.system.public_words, "output length")
            canonical(self.output_words)
        self.tables(self.s.message(len(self.system.slots)), dict(zip(owners, program[1:-4], strict=True)))

    def tables(self, logs: list[int], program_logs: dict[int, int]) -> None:
        """Rules for the table list."""
        self.program_logs = program_logs
        self.slots: list[Slot] = []
        for n, ((k, instance), log) in enumerate(zip(self.system.slots, logs, strict=True)):
            p = self.system.programs[k]
            require(log == 0 or p.min_log <= log <= p.max_log, "height")
            if instance:
                require(log <= logs[n - 1], "second instance")
            elif p.fixed_in == PROGRAM:
                require(log == program_logs[k], "height of a program table")
            else:
                require(log != 0 or not p.required, "required table")
            if log:
                self.slots.append(Slot(p, log))
        require(bool(self.slots), "no tables")
        require(sum(len(s.program.interactions) << s.log for s in self.slots) < 1 << 60, "too many messages")
        self.logs = sorted({s.log for s in self.slots}, reverse=True)

    # ------------------------------------------------------------ commitments and opened values

    def commitments(self) -> None:
        """Roots of the phases and their challenges."""
        self.roots: dict[str, list[int]] = {}
        if any(s.program.main_count for s in self.slots):
            self.roots["main"] = self.s.message(4)
        talking = [s for s in self.slots if s.program.interactions]
        self.alpha = self.beta = ZERO
        if talking:
            self.alpha, self.beta = self.challenge("alpha"), self.challenge("beta")
            self.roots["logup"] = self.s.message(4)
            for s, sigma in zip(talking, self.s.elements(len(talking)), strict=True):
                s.sigma = sigma
        self.combination = self.challenge("constraint")
        self.roots["quotient"] = self.s.message(4)
        self.zeta = next(z for z in iter(lambda: self.challenge("zeta"), None) if z[1:] != (0, 0))

    def values(self) -> None:
        """Out-of-domain values, and what each of them speaks of."""
        self.terms: list[Term] = []
        self.widths: dict[str, dict[int, int]] = {"universal": {}, "program": {}, "main": {}, "logup": {},
                                                  "quotient": {}}
        for tree, name in ((UNIVERSAL, "universal"), (PROGRAM, "program")):
            self.preprocessed(tree, name)
        for s in self.slots:
            at = self.place("main", s.log, s.program.main_count)
            self.terms += [Term("main", s.log, at + c, 1, False) for c in range(s.program.main_count)]
            self.terms += [Term("main", s.log, at + c - s.program.fixed_count, 1, True) for c in s.program.following]
        for s in self.slots:
            pairs = s.program.pairs
            if pairs:
                at = self.place("logup", s.log, 3 * pairs)
                self.terms += [Term("logup", s.log, at + 3 * c, 3, False) for c in range(pairs)]
                self.terms.append(Term("logup", s.log, at + 3 * pairs - 3, 3, True))
        for log in self.logs:
            at = self.place("quotient", log, 6)
            self.terms += [Term("quotient", log, at + c, 3, False) for c in (0, 3)]
        for term, value in zip(self.terms, self.s.elements(len(self.terms)), strict=True):
            term.value = value
        self.hand_out()

    def place(self, tree: str, log: int, width: int) -> int:
        """Offset in the row of that height, for ``width`` words more."""
        if width == 0:
            return 0
        at = self.widths[tree].get(log, 0)
        self.widths[tree][log] = at + width
        return at

    def preprocessed(self, tree: int, name: str) -> None:
        """The rows hold all tables of the tree, the terms those that are present."""
        for k, p in enumerate(self.system.programs):
            if p.fixed_in != tree:
                continue
            log = p.max_log if tree == UNIVERSAL else self.program_logs[k]
            at = self.place(name, log, p.fixed_count if log else 0)
            if any(s.program is p for s in self.slots):
                self.terms += [Term(name, log, at + c, 1, False) for c in range(p.fixed_count)]

    def hand_out(self) -> None:
        """Give each table its values, in the order in which they were sent."""
        left = [t.value for t in self.terms]

        def take(n: int) -> list[Ext]:
            out = left[:n]
            del left[:n]
            return out

        for tree in (UNIVERSAL, PROGRAM):
            for s in self.slots:
                if s.program.fixed_in == tree:
                    s.fixed = take(s.program.fixed_count)
        for s in self.slots:
            s.main, s.following = take(s.program.main_count), take(len(s.program.following))
        for s in self.slots:
            if s.program.pairs:
                s.logup, (s.next_sum,) = take(s.program.pairs), take(1)
        self.quotients = {log: take(2) for log in self.logs}

    # ------------------------------------------------------------ buses and constraints

    def fingerprint(self, bus: int, entries: Iterable[Ext]) -> Ext:
        """alpha - (bus + beta x1 + beta^2 x2 + ...)."""
        total, scale = base(bus), ONE
        for x in entries:
            scale = mul(scale, self.beta)
            total = add(total, mul(scale, x))
        return sub(self.alpha, total)

    def balance(self) -> None:
        """All sums and the verifier's own messages cancel."""
        own = []
        if self.system.start_bus is not None:
            own.append((self.system.start_bus.id, (self.entry, 4), 1))
        if self.system.output_bus is not None:
            own += [(self.system.output_bus.id, (i, b), -1) for i, b in enumerate(self.output)]
        require(not own or any(s.program.interactions for s in self.slots), "nobody talks")
        total = add(ZERO, *(s.sigma for s in self.slots))
        for bus, entries, m in own:
            total = add(total, mul(base(m), inverse(self.fingerprint(bus, map(base, entries)))))
        require(total == ZERO, "buses do not balance")

    def constraints(self, log: int) -> None:
        """The random combination at this height is (x^n - 1) (q0 + x^n q1)."""
        require(self.gap(log) == ZERO, "constraints")

    def gap(self, log: int) -> Ext:
        """What the quotient at this height lacks, times x^n - 1, of the random combination of the constraints."""
        total, scale = ZERO, ONE
        for s in self.slots:
            if s.log == log:
                for c in self.table_constraints(s):
                    total = add(total, mul(scale, c))
                    scale = mul(scale, self.combination)
        zeta_n = power(self.zeta, 1 << log)
        q0, q1 = self.quotients[log]
        return sub(total, mul(sub(zeta_n, ONE), add(q0, mul(zeta_n, q1))))

    def table_constraints(self, s: Slot) -> list[Ext]:
        """Values of a table's constraints at zeta: its rules, then one for each LogUp column."""
        p = s.program
        slots = [*s.fixed, *s.main, *s.following, self.selector(s.log, 0), self.selector(s.log, -1),
                 *(base(self.output_words[i]) for i in p.publics), *map(base, p.constants)]
        for kind, a, b in p.ops:
            slots.append((add, sub, mul)[kind](slots[a], slots[b]))
        out = [slots[z] for z in p.zeros]
        fractions = [(self.affine(i.multiplicity, slots),
                      self.fingerprint(i.bus.id, [self.affine(e, slots) for e in i.entries]))
                     for i in p.interactions]
        if not fractions:
            return out
        step = add(sub(s.next_sum, s.logup[-1]), mul(s.sigma, base(pow(1 << s.log, -1, P))))
        sums = [*s.logup[:-1], reduce(sub, s.logup[:-1], step)]
        for phi, k in zip(sums, range(0, len(fractions), 2), strict=True):
            pair = fractions[k:k + 2]
            if len(pair) == 1:
                pair.append((ZERO, ONE))
            (m, d), (n, e) = pair
            out.append(sub(mul(phi, mul(d, e)), add(mul(m, e), mul(n, d))))
        return out

    def selector(self, log: int, row: int) -> Ext:
        """The polynomial that is 1 in a row and 0 in the others: (x^n - 1) w / (n (x - w)) with w = w_n^row."""
        w = pow(root(log), row, P)
        top = mul(sub(power(self.zeta, 1 << log), ONE), base(w * pow(1 << log, -1, P)))
        return mul(top, inverse(sub(self.zeta, base(w))))

    @staticmethod
    def affine(form: Any, slots: list[Ext]) -> Ext:
        """Constant and weighted columns."""
        return add(base(form.constant), *(mul(slots[c], base(k)) for c, k in form.terms.items()))

    # ------------------------------------------------------------ low degree

    def low_degree(self) -> None:
        """Batching, FRI, proof of work, openings."""
        drawn = [self.challenge("batching") for _ in range((len(self.terms) - 1).bit_length())]
        weights = [reduce(mul, (r for k, r in enumerate(drawn) if t >> k & 1), ONE) for t in range(len(self.terms))]
        steps = self.commit_phase()
        final = self.s.elements(1 << FINAL_LOG)
        self.work()
        size = self.logs[0] + self.blowup
        queries = [self.replayed("index", self.t.below(1 << size)) for _ in range(self.params.num_queries)]
        rows = self.open_trees(queries)
        current = self.codeword(self.logs[0], queries, rows, weights)
        for root_words, beta, log_from, log_to, joining in steps:
            leaves = self.open_tree(root_words, {log_to: 3 << log_from - log_to}, queries)[log_to]
            self.check_layer(current, leaves, log_to)
            current = {j: self.fold(leaf, log_from, log_to, j, beta) for j, leaf in leaves.items()}
            if joining is not None:
                extra = self.codeword(log_to - self.blowup, queries, rows, weights)
                current = {j: add(x, mul(joining, extra[j])) for j, x in current.items()}
        u = root(FINAL_LOG + self.blowup)
        for j, x in current.items():
            y = reduce(lambda acc, c, at=pow(u, j, P): add(mul(acc, base(at)), c), reversed(final), ZERO)
            require(x == y, "final polynomial")

    def commit_phase(self) -> list[tuple[list[int], Ext, int, int, Ext | None]]:
        """(root, beta, log size, next log size, lambda if a height joins there) of each FRI layer."""
        sizes = {log + self.blowup for log in self.logs}
        end = FINAL_LOG + self.blowup
        size, steps = max(sizes), []
        while size > end:
            layer, beta = self.s.message(4), self.challenge("fri_beta")
            target = max([size - FOLD_LOG, end, *(k for k in sizes if k < size)])
            joining = self.challenge("fri_lambda") if target in sizes else None
            steps.append((layer, beta, size, target, joining))
            size = target
        return steps

    def work(self) -> None:
        """Proof of work on a squeeze."""
        bits = self.params.grinding_bits
        if bits:
            seed = self.replayed("pow_seed", unpack(self.t.squeeze()))
            (nonce,) = self.s.message(1)
            found = b"".join(w.to_bytes(8, "little") for w in digest([*unpack(b"tb pow\0\0"), *seed, bits, nonce]))
            require(int.from_bytes(found, "big") >> 256 - bits == 0, "proof of work")

    def open_trees(self, queries: list[int]) -> dict[str, dict[int, dict[int, list[int]]]]:
        """Rows of all trees by name, log size and index."""
        roots = {"universal": self.keyed.universal.root, "program": self.program_root, **self.roots}
        top = self.logs[0]
        out = {}
        for name, widths in self.widths.items():
            if widths:
                require(max(widths) <= top, "a preprocessed table is too high")
                sizes = {log + self.blowup: w for log, w in widths.items()}
                out[name] = self.open_tree(roots[name], sizes, queries)
        return out

    def open_tree(self, root_words: Sequence[int], widths: dict[int, int],
                  queries: list[int]) -> dict[int, dict[int, list[int]]]:
        """Rows by log size and index, checked against the root."""
        rows = {k: {i: canonical(self.s.hint(widths[k])) for i in indices(queries, k)}
                for k in sorted(widths, reverse=True)}
        top = max(widths)
        nodes = {i: digest(row) for i, row in rows[top].items()}
        for k in reversed(range(top)):
            parents = indices(queries, k)
            for i in sorted({*parents, *(p + (1 << k) for p in parents)} - nodes.keys()):
                nodes[i] = tuple(self.s.hint(4))
            nodes = {p: digest([2**64 - 1, *nodes[p], *nodes[p + (1 << k)],
                                *(digest(rows[k][p]) if k in rows else ())]) for p in parents}
        require(nodes == {0: tuple(root_words)}, "root")
        return rows

    def codeword(self, log: int, queries: list[int], rows: dict[str, dict[int, dict[int, list[int]]]],
                 weights: list[Ext]) -> dict[int, Ext]:
        """Sum of weight (row - value) / (x - point) over the terms of a height, at the queried x = 7 w^i."""
        k = log + self.blowup
        points = (self.zeta, mul(self.zeta, base(root(log))))
        out = {}
        for i in indices(queries, k):
            x = base(G * pow(root(k), i, P))
            sums = [ZERO, ZERO]
            for term, w in zip(self.terms, weights, strict=True):
                if term.log == log:
                    row = rows[term.tree][k][i][term.offset:term.offset + term.width]
                    c: Ext = (row[0], row[1], row[2]) if term.width == 3 else base(row[0])
                    sums[term.following] = add(sums[term.following], mul(w, sub(c, term.value)))
            out[i] = add(*(mul(s, inverse(sub(x, z))) for s, z in zip(sums, points, strict=True)))
        return out

    @staticmethod
    def check_layer(current: dict[int, Ext], leaves: dict[int, list[int]], log_to: int) -> None:
        """Leaf j holds the values at j + t 2^log_to."""
        for i, x in current.items():
            t, leaf = i >> log_to, leaves[i % (1 << log_to)]
            require(x == tuple(leaf[3 * t:3 * t + 3]), "FRI layer")

    @staticmethod
    def fold(leaf: list[int], log_from: int, log_to: int, j: int, beta: Ext) -> Ext:
        """Value at beta of the polynomial through the leaf's points, by Lagrange's formula."""
        xs = [pow(root(log_from), j + (t << log_to), P) for t in range(1 << log_from - log_to)]
        total = ZERO
        for t, x in enumerate(xs):
            term: Ext = (leaf[3 * t], leaf[3 * t + 1], leaf[3 * t + 2])
            for y in xs[:t] + xs[t + 1:]:
                term = mul(term, mul(sub(beta, base(y)), base(pow(x - y, -1, P))))
            total = add(total, term)
        return total


def indices(queries: Iterable[int], k: int) -> list[int]:
    """The distinct queries mod 2^k, ascending."""
    return sorted({q % (1 << k) for q in queries})


def verify(keyed: Any, program_id: bytes, words: Sequence[int],
           frozen: Mapping[str, Sequence[Any]] | None = None) -> bytes:
    """The public output that the proof shows; :class:`Refused` if it is no good."""
    return Run(keyed, words, frozen).verify(program_id)
