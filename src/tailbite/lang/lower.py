"""Lowering of a :class:`Function` to LLVM text: run-time control flow comes from the syntax tree."""

from __future__ import annotations

import ast
import hashlib
import linecache
import operator
import os
import re
import traceback
from collections.abc import Iterable, Mapping
from typing import Any, get_origin

from ..errors import CompileError, TailbiteError
from .function import Function, Unroll, located
from .types import ArrayType, Int, PtrType, SliceType, boolx8, tuple_parts, type_name, u64
from .values import (
    Builder,
    SliceValue,
    Value,
    assemble,
    flatten,
    homes_of,
    inferred_type,
    lift,
    llvm_type,
    load,
    parts_of,
    size_of,
    store,
)

INLINE_ZEROS = 256  # bytes of an array that are zeroed by stores; a guest's memset is a loop
_BINARY = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.BitXor: operator.xor,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}
_COMPARISON = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}
_MUTATORS = {"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update", "add",
             "discard", "setdefault", "popitem", "__setitem__"}
_RESERVED = {"memset", "memcpy", "memmove", "_start", "tb_panic", "tb_ecall"}
_FROZEN = ("a Python object is changed under run-time control flow or outside of the function: it exists only at "
           "compile time; use an Array")
_PACKAGE = os.path.dirname(os.path.abspath(__file__))


class Module:
    """LLVM text of a set of functions and all that they call, for one target ("cpu" or "riscv").

    ``replace`` maps functions to others of the same types, which are compiled wherever the first are called.
    """

    def __init__(self, target: str, replace: Mapping[Function, Function] | None = None) -> None:
        self.target, self.replace = target, dict(replace or {})
        for old, new in self.replace.items():
            if (*old.signature.values(), old.returns) != (*new.signature.values(), new.returns):
                raise new.error(new.first_line, f"{new.name} cannot replace {old.name}, which has other types")
        self.names: dict[int, str] = {}
        self.texts: list[str] = []
        self.declares: set[str] = set()
        self.can_trap: dict[str, bool] = {}
        self.sites: list[tuple[str, int, str]] = []
        self.keep: list[Function] = []
        self.lowering: list[Function] = []

    def add(self, fn: Function) -> str:
        """Lower ``fn`` unless that is done; returns its symbol."""
        name = self.names.get(id(fn))
        if name is not None:
            if fn in self.lowering:
                raise CompileError(f"{fn.name} calls itself: the language has no recursion")
            return name
        name = re.sub(r"\W", "_", fn.name, flags=re.ASCII)
        while name in self.can_trap or name in _RESERVED:
            name = f"{re.sub(r'_x[0-9]+$', '', name)}_x{len(self.can_trap)}"
        self.names[id(fn)] = name
        self.keep.append(fn)
        self.can_trap[name] = False
        self.lowering.append(fn)
        try:
            self.texts.append(_Lowerer(self, fn, name).run())
        finally:
            self.lowering.pop()
        return name

    def callee(self, fn: Function) -> Any:
        """What a call of ``fn`` compiles: its replacement, if it has one, and for a guest the twin of that, which may
        be a plain helper."""
        fn = self.replace.get(fn, fn)
        return fn.guest if self.target == "riscv" and fn.guest is not None else fn

    def entry(self, fn: Function) -> str:
        """Add a C-callable wrapper ``<name>.entry(results, arguments...) -> status``; returns its symbol."""
        name = self.add(fn)
        if any(isinstance(t, PtrType) or t is boolx8 for t in flatten(fn.returns)):
            raise fn.error(fn.first_line, f"{fn.name} cannot give Python a {type_name(fn.returns)}, only numbers")
        kinds = [llvm_type(t) for p in fn.signature.values() for t in flatten(p)]
        results = flatten(fn.returns)
        params = "".join(f", {k} %a{i}" for i, k in enumerate(kinds))
        args = ", ".join(f"{k} %a{i}" for i, k in enumerate(kinds))
        kind = result_type(results, self.can_trap[name])
        lines = [f"define i32 @{name}.entry(ptr %r{params}) {{"]
        lines.append(f"  {'' if kind == 'void' else '%x = '}call {kind} @{name}({args})")
        shift = int(self.can_trap[name])
        for i, t in enumerate(results):
            value = "%x"
            if kind.startswith("{"):
                lines.append(f"  %e{i} = extractvalue {kind} %x, {i + shift}")
                value = f"%e{i}"
            if t is bool:
                lines.append(f"  %z{i} = zext i1 {value} to i64")
                value, t = f"%z{i}", u64
            lines.append(f"  %p{i} = getelementptr i8, ptr %r, i64 {64 * i}")
            lines.append(f"  store {llvm_type(t)} {value}, ptr %p{i}, align 8")
        status = "0"
        if shift:
            status = "%x" if kind == "i32" else "%st"
            if kind != "i32":
                lines.append(f"  %st = extractvalue {kind} %x, 0")
        lines += [f"  ret i32 {status}", "}"]
        self.texts.append("\n".join(lines) + "\n")
        return f"{name}.entry"

    def text(self) -> str:
        return "\n".join([*sorted(self.declares), "!0 = !{i32 1}"]) + "\n" + "\n".join(self.texts)


def result_type(results: list[Any], can_trap: bool) -> str:
    """LLVM return type: the results, led by a status word if the function can trap."""
    kinds = (["i32"] if can_trap else []) + [llvm_type(t) for t in results]
    return "void" if not kinds else kinds[0] if len(kinds) == 1 else "{" + ", ".join(kinds) + "}"


def emit_call(module: Module, b: Builder, fn: Function, args: tuple[Any, ...]) -> Any:
    """Call of a lowered function; a trap of the callee is passed on."""
    if len(args) != len(fn.signature):
        raise CompileError(f"{fn.name}() takes {len(fn.signature)} arguments, got {len(args)}")
    callee = module.callee(fn)
    if not isinstance(callee, Function):
        return callee(*(lift(a, t, b) for t, a in zip(fn.signature.values(), args, strict=True)))
    fn = callee
    name = module.add(fn)
    parts: list[Value] = []
    for (param, t), a in zip(fn.signature.items(), args, strict=True):
        try:
            parts += parts_of(lift(a, t, b), t, b)
        except CompileError as e:
            raise CompileError(f"argument '{param}' of {fn.name}: {e}") from None
    results = flatten(fn.returns)
    trapping = module.can_trap[name]
    kind = result_type(results, trapping)
    homes = homes_of(args)
    text = f"call {kind} @{name}({', '.join(f'{llvm_type(p.type)} {p.name}' for p in parts)})"
    if kind == "void":
        b.put(text)
        return None
    r = b.emit(text)
    if trapping:
        status = r if kind == "i32" else b.emit(f"extractvalue {kind} {r}, 0")
        k = b.fresh()
        fine = b.emit(f"icmp eq i32 {status}, 0")
        b.can_trap = True
        b.put(f"br i1 {fine}, label %ok{k}, label %trap{k}")
        b.label(f"trap{k}")
        b.put(f"; PASS {status}")
        b.label(f"ok{k}")
    if not kind.startswith("{"):
        return None if trapping else assemble(fn.returns, [Value(b, results[0], r)], b, homes)
    shift = int(trapping)
    values = [Value(b, t, b.emit(f"extractvalue {kind} {r}, {i + shift}")) for i, t in enumerate(results)]
    return assemble(fn.returns, values, b, homes)


def call_from_helper(fn: Function, args: tuple[Any, ...]) -> Any:
    """A @function called from a plain helper with run-time arguments."""
    b = _builder_of(args)
    return emit_call(b.module, b, fn, args)


def _builder_of(args: Any) -> Any:
    for a in args:
        if isinstance(a, Value | SliceValue):
            return a.b
        if isinstance(a, tuple):
            found = _builder_of(a)
            if found is not None:
                return found
    return None


class _Local:
    """A run-time variable: its type and one stack slot for each scalar part."""

    def __init__(self, t: Any, slots: list[str]) -> None:
        self.type, self.slots = t, slots
        self.homes: frozenset[Any] = frozenset()


class _FunctionBuilder(Builder):
    def __init__(self, module: Module) -> None:
        super().__init__(module.target)
        self.module = module


class _Loop:
    def __init__(self, again: str, out: str, before: dict[str, Any], region: tuple[int, ...]) -> None:
        self.again, self.out, self.before, self.region = again, out, before, region
        self.at_break: list[dict[str, Any]] = []


class _Lowerer:
    """One function. ``env`` maps names that surely have a value here to locals or compile-time objects."""

    def __init__(self, module: Module, fn: Function, symbol: str) -> None:
        self.module, self.fn, self.symbol = module, fn, symbol
        self.b = _FunctionBuilder(module)
        self.env: dict[str, Any] = {}
        self.locals: dict[str, _Local] = {}
        self.assigned = _assigned(fn.tree)
        self.regions: dict[str, tuple[int, ...]] = {}
        self.frozen = [_containers(fn.namespace.get(n.id) for n in ast.walk(fn.tree) if isinstance(n, ast.Name))]
        self.loops: list[_Loop] = []
        self.dead = False
        self.line = fn.first_line

    # ------------------------------------------------------------ function

    def run(self) -> str:
        fn, b = self.fn, self.b
        try:
            params: list[str] = []
            for name, t in fn.signature.items():
                parts = []
                for s in flatten(t):
                    register = f"%arg{len(params)}"
                    params.append(f"{llvm_type(s)} {register}")
                    parts.append(Value(b, s, register))
                self.bind(name, assemble(t, parts, b))
            self.block(fn.tree.body)
            if not self.dead:
                if fn.returns is not None:
                    raise self.fail("the function can end without return")
                b.put("; RET")
        except (CompileError, TypeError, OverflowError) as e:
            raise self.placed(e) from None
        kind = result_type(flatten(fn.returns), self.trapping)
        self.module.can_trap[self.symbol] = self.trapping
        self.module.declares |= b.declares
        lines = [line for raw in b.lines for line in self.finished(raw, kind)]
        head = f"define {'internal ' if self.module.target == 'cpu' else ''}{kind} @{self.symbol}({', '.join(params)})"
        return f"{head} noinline nounwind {{\nentry:\n" + "\n".join(b.allocas + lines) + "\n}\n"

    @property
    def trapping(self) -> bool:
        return self.b.can_trap and self.module.target == "cpu"

    def finished(self, line: str, kind: str) -> list[str]:
        """Replace the placeholders of returns and traps, now that the result type is known."""
        text = line.strip()
        if text.startswith("; RET"):
            values = text[5:].split(";") if text[5:] else []
            return self.returned((["i32 0"] if self.trapping else []) + [v.strip() for v in values], kind)
        if text.startswith(("; PASS", "; TRAP")):
            if self.module.target != "cpu":
                return self.panic(self.b.sites[int(text.split()[2])])
            status = text.split()[2]
            if text.startswith("; TRAP"):
                self.module.sites.append(self.b.sites[int(status)])
                status = str(len(self.module.sites))
            rest = [f"{k} zeroinitializer" if k[0] == "<" else f"{k} {'null' if k == 'ptr' else '0'}"
                    for k in map(llvm_type, flatten(self.fn.returns))]
            return self.returned([f"i32 {status}", *rest], kind)
        return [line]

    def returned(self, values: list[str], kind: str) -> list[str]:
        if not values:
            return ["  ret void"]
        if len(values) == 1:
            return [f"  ret {values[0]}"]
        lines, agg = [], "poison"
        for i, v in enumerate(values):
            r = f"%v{self.b.fresh()}"
            lines.append(f"  {r} = insertvalue {kind} {agg}, {v}, {i}")
            agg = r
        return [*lines, f"  ret {kind} {agg}"]

    def panic(self, site: tuple[str, int, str]) -> list[str]:
        """On a guest a trap is the panic call. Its message names the function, no file or line: those would make a
        program's identity depend on how its source is laid out."""
        text = f"{self.fn.name}: {site[2]}".encode()
        name = f"@tb_msg_{hashlib.sha256(text).hexdigest()[:16]}"
        body = "".join(f"\\{c:02x}" for c in text)
        self.module.declares.add(f'{name} = private constant [{len(text)} x i8] c"{body}"')
        self.module.declares.add("declare void @tb_panic(ptr, i64) noreturn")
        return [f"  call void @tb_panic(ptr {name}, i64 {len(text)})", "  unreachable"]

    # ------------------------------------------------------------ errors

    def fail(self, message: str, node: ast.AST | None = None) -> CompileError:
        return located(self.fn.file, getattr(node, "lineno", self.line), message)

    def placed(self, e: Exception) -> CompileError:
        """Give an error its place: the helper's line first, then the caller's."""
        message = str(e)
        if re.match(r"[^\n]*:\d+: ", message):
            return e if isinstance(e, CompileError) else CompileError(message)
        here = (self.fn.file, self.line)
        frames = [f for f in traceback.extract_tb(e.__traceback__)
                  if f.lineno and os.path.dirname(os.path.abspath(f.filename)) != _PACKAGE]
        if frames:
            f = frames[-1]
            file, line = f.filename, f.lineno or 0
            text = linecache.getline(file, line).strip()
            caller = linecache.getline(*here).strip()
            return CompileError(f"{file}:{line}: {message}\n    {text}\n"
                                f"  called from {here[0]}:{here[1]}\n    {caller}")
        return located(*here, message)

    # ------------------------------------------------------------ names

    def bind(self, name: str, x: Any) -> None:
        """Assign: run-time values go to stack slots, other objects are compile-time names."""
        t = inferred_type(x)
        if t is None:
            self.bind_constant(name, x)
            return
        if isinstance(t, ArrayType):  # an array is memory already
            self.bind_constant(name, x)
            return
        have = self.env.get(name)
        if name in self.env and not isinstance(have, _Local):
            if self.b.region and not self.own(name):
                raise self.fail(f"'{name}' is a compile-time name and cannot become a run-time variable here")
            del self.env[name]
        local = self.locals.get(name)
        if local is None:
            slots = [self.b.alloca("i8" if s is bool else llvm_type(s), name, 64 if llvm_type(s)[0] == "<" else 0)
                     for s in flatten(t)]
            local = self.locals[name] = _Local(t, slots)
        if local.type != t:
            try:
                if isinstance(x, tuple) and type(x) is not (get_origin(local.type) or local.type):
                    raise CompileError("another kind of tuple")
                x = lift(x, local.type, self.b)
            except CompileError:
                raise self.fail(f"'{name}' changes its type from {type_name(local.type)} to {type_name(t)}") from None
        x = lift(x, local.type, self.b)
        for p, slot in zip(parts_of(x, local.type, self.b), local.slots, strict=True):
            if p.type is bool:
                store(self.b, bool, p, slot)
            else:
                store(self.b, p.type, p, slot)
        local.homes |= homes_of(x)
        self.env[name] = local

    def bind_constant(self, name: str, x: Any) -> None:
        if isinstance(x, int | float):
            raise self.fail(f"'{name} = {x}' has no type: write {name} = u64({x})")
        if self.b.region and name in self.env and not self.own(name):
            raise self.fail(f"'{name}' is rebound under run-time control flow, but {_kind(x)} exists only at "
                            f"compile time: use a run-time value, a tuple of values or an Array")
        self.env[name] = x
        self.regions[name] = self.b.region

    def own(self, name: str) -> bool:
        return self.regions.get(name) == self.b.region

    def read(self, name: str, node: ast.AST) -> Any:
        if name in self.env:
            x = self.env[name]
            if isinstance(x, _Local):
                parts = [load(self.b, s, slot) for s, slot in zip(flatten(x.type), x.slots, strict=True)]
                return assemble(x.type, parts, self.b, x.homes)
            return x
        if name in self.assigned:
            raise self.fail(f"'{name}' has no value on some path to this line: assign it before", node)
        if name not in self.fn.namespace:
            raise self.fail(f"'{name}' is not defined", node)
        return self.fn.namespace[name]

    # ------------------------------------------------------------ control flow

    def enter(self, k: int) -> dict[str, Any]:
        """Begin a region: what happens in it happens at run time on some paths only."""
        self.b.region = (*self.b.region, k)
        self.frozen.append(self.frozen[-1] | _containers(self.env.values()))
        return dict(self.env)

    def leave(self) -> None:
        self.b.region = self.b.region[:-1]
        self.frozen.pop()

    def join(self, *envs: dict[str, Any]) -> None:
        """After paths meet, a name has a value only if it has one, the same variable or object, on each."""
        if not envs:
            self.dead = True
            return
        self.dead = False
        first = envs[0]
        self.env = {n: x for n, x in first.items() if all(n in e and e[n] is x for e in envs[1:])}

    def block(self, body: list[ast.stmt]) -> None:
        for st in body:
            if self.dead:
                return
            self.line = st.lineno
            self.b.location = (self.fn.file, st.lineno)
            method = getattr(self, "s_" + type(st).__name__, None)
            if method is None:
                raise self.fail(f"{type(st).__name__} is not in the language", st)
            try:
                method(st)
                self.guard_unchanged()
            except (TailbiteError, TypeError, OverflowError) as e:
                raise self.placed(e) from None
            except Exception as e:
                raise self.placed(CompileError(f"{type(e).__name__}: {e}").with_traceback(e.__traceback__)) from e

    def s_Pass(self, st: ast.Pass) -> None:
        pass

    def s_Expr(self, st: ast.Expr) -> None:
        if not isinstance(st.value, ast.Constant):
            self.ex(st.value)

    def s_Assign(self, st: ast.Assign) -> None:
        x = self.ex(st.value)
        for target in st.targets:
            self.assign(target, x)

    def s_AnnAssign(self, st: ast.AnnAssign) -> None:
        if st.value is None:
            raise self.fail("a declaration needs a value", st)
        t = self.ex(st.annotation)
        if isinstance(t, str):
            t = eval(t, dict(self.fn.namespace))
        self.assign(st.target, lift(self.ex(st.value), t, self.b))

    def assign(self, target: ast.expr, x: Any) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, x)
        elif isinstance(target, ast.Tuple | ast.List):
            items = list(x)
            if len(items) != len(target.elts):
                raise self.fail(f"{len(items)} values for {len(target.elts)} names", target)
            for t, e in zip(target.elts, items, strict=True):
                self.assign(t, e)
        elif isinstance(target, ast.Subscript):
            holder = self.ex(target.value)
            self.guard_mutation(holder, target)
            holder[self.index(target.slice)] = x
        else:
            raise self.fail("cannot assign to this: attributes of compile-time objects are constants", target)

    def s_AugAssign(self, st: ast.AugAssign) -> None:
        if isinstance(st.target, ast.Name):
            now: Any = self.read(st.target.id, st)
            if isinstance(now, list):
                raise self.fail("a list is not changed in place by an operator: write xs = xs + ys", st)
            self.bind(st.target.id, self.binary(st.op, now, self.ex(st.value), st))
        elif isinstance(st.target, ast.Subscript):
            holder, i = self.ex(st.target.value), self.index(st.target.slice)
            self.guard_mutation(holder, st)
            holder[i] = self.binary(st.op, holder[i], self.ex(st.value), st)
        else:
            raise self.fail("cannot assign to this", st)

    def guard_mutation(self, holder: Any, node: ast.AST) -> None:
        if isinstance(holder, list | dict | set) and not self.made_here(holder):
            raise self.fail(_FROZEN, node)

    def made_here(self, holder: Any) -> bool:
        """Was this Python object made in this region of this function?"""
        mine = any(x is holder for x in self.env.values()) or id(holder) in _containers(self.env.values())
        return mine and id(holder) not in self.frozen[-1]

    def guard_unchanged(self) -> None:
        """A helper, too, must leave alone what was made outside of this region."""
        if self.b.region:
            for x, items in self.frozen[-1].values():
                if len(x) != len(items) or not all(map(operator.is_, _items(x), items)):
                    raise CompileError(_FROZEN)

    def s_Return(self, st: ast.Return) -> None:
        x = None if st.value is None else self.ex(st.value)
        t = self.fn.returns
        if t is None:
            if x is not None:
                raise self.fail("the function is declared to return None", st)
            self.b.put("; RET")
        else:
            x = lift(x, t, self.b)
            if homes_of(x):
                raise self.fail("a slice of an Array cannot leave the function that made the Array", st)
            parts = parts_of(x, t, self.b)
            self.b.put("; RET " + ";".join(f"{llvm_type(p.type)} {p.name}" for p in parts))
        self.dead = True

    def s_Assert(self, st: ast.Assert) -> None:
        c = self.condition(st.test)
        message = str(st.msg.value) if isinstance(st.msg, ast.Constant) else \
            linecache.getline(self.fn.file, st.lineno).strip()
        if isinstance(c, Value):
            self.b.trap_unless(c, f"assertion failed: {message}")
        elif isinstance(st.test, ast.Constant) and c is False:  # a place that must not be reached
            self.b.trap(f"assertion failed: {message}")
            self.dead = True
        elif not c:
            raise self.fail(f"this assertion always fails: {message}", st)

    def condition(self, e: ast.expr) -> Any:
        c = self.ex(e)
        if isinstance(c, Value):
            if c.type is not bool:
                raise self.fail(f"a condition must be bool, not {type_name(c.type)}: write x != 0", e)
        elif isinstance(c, Int):
            raise self.fail("a condition must be bool: write x != 0", e)
        return c

    def s_If(self, st: ast.If) -> None:
        c = self.condition(st.test)
        if not isinstance(c, Value):
            self.block(st.body if c else st.orelse)
            return
        k = self.b.fresh()
        self.b.put(f"br i1 {c.name}, label %then{k}, label %else{k}")
        before, ends = dict(self.env), []
        for label, body in ((f"then{k}", st.body), (f"else{k}", st.orelse)):
            self.b.label(label)
            self.env, self.dead = dict(before), False
            self.enter(self.b.fresh())
            self.block(body)
            self.leave()
            if not self.dead:
                self.b.put(f"br label %join{k}")
                ends.append(self.env)
        self.join(*ends)
        if ends:
            self.b.label(f"join{k}")

    def s_While(self, st: ast.While) -> None:
        if st.orelse:
            raise self.fail("while ... else is not in the language", st)
        k = self.b.fresh()
        self.b.put(f"br label %head{k}")
        self.b.label(f"head{k}")
        before = self.enter_loop(k, st)
        c = self.condition(st.test)
        endless = c is True
        if not isinstance(c, Value) and not endless:
            raise self.fail("the condition of while must be a run-time value or True", st)
        self.b.put(f"br label %body{k}" if endless else f"br i1 {c.name}, label %body{k}, label %out{k}")
        self.b.label(f"body{k}")
        loop = _Loop(f"head{k}", f"out{k}", before, self.b.region)
        self.loop_body(loop, st)
        if not self.dead:
            self.b.put(f"br label %head{k}")
        self.leave()
        self.join(*([] if endless else [before]), *loop.at_break)
        if not self.dead:
            self.b.label(f"out{k}")

    def enter_loop(self, k: int, st: ast.While | ast.For) -> dict[str, Any]:
        """Begin a loop: a compile-time loop variable within it has no value when a pass begins."""
        for name in _loop_variables(st):
            if not isinstance(self.env.get(name), _Local):
                self.env.pop(name, None)
        return self.enter(k)

    def loop_body(self, loop: _Loop, st: ast.While | ast.For) -> None:
        self.loops.append(loop)
        self.block(st.body)
        if not self.dead:
            self.next_pass(loop, st)
        self.loops.pop()

    def next_pass(self, loop: _Loop, st: ast.stmt) -> None:
        """What was known when the loop began must hold for its next pass."""
        for name, x in loop.before.items():
            if self.env.get(name) is not x:
                raise self.fail(f"'{name}' is rebound in the loop, but exists only at compile time", st)
            if isinstance(x, _Local) and any(h[:len(loop.region)] == loop.region for h in x.homes):
                raise self.fail(f"'{name}' is a slice of an Array that lasts for one pass of the loop only", st)

    def s_For(self, st: ast.For) -> None:
        if st.orelse:
            raise self.fail("for ... else is not in the language", st)
        it = st.iter
        if isinstance(it, ast.Call) and self.ex(it.func) is range:
            return self.for_range(st, [self.ex(a) for a in it.args])
        items = self.ex(it)
        if not isinstance(items, Unroll):
            raise self.fail("a loop runs over range(...), or over unroll(...) at compile time", st)
        if _has_jump(st.body):
            raise self.fail("break and continue are not possible in an unrolled loop", st)
        for x in items:
            self.assign_unrolled(st.target, x)
            self.block(st.body)
            if self.dead:
                break
        return None

    def assign_unrolled(self, target: ast.expr, x: Any) -> None:
        if isinstance(target, ast.Name):
            self.env[target.id] = x
            self.regions[target.id] = self.b.region
        elif isinstance(target, ast.Tuple):
            for t, e in zip(target.elts, x, strict=True):
                self.assign_unrolled(t, e)
        else:
            raise self.fail("the loop variable must be a name", target)

    def for_range(self, st: ast.For, args: list[Any]) -> None:
        lo, hi, step = (0, args[0], 1) if len(args) == 1 else (*args, 1) if len(args) == 2 else args
        if isinstance(step, Value) or int(step) <= 0:
            raise self.fail("the step of a range must be a positive constant", st)
        if not isinstance(st.target, ast.Name):
            raise self.fail("the loop variable must be a name", st)
        name, b, k, step = st.target.id, self.b, self.b.fresh(), int(step)
        end = lift(hi, u64, b)
        slot = b.alloca("i64", f"{name}_next")
        store(b, u64, lift(lo, u64, b), slot)
        b.put(f"br label %head{k}")
        b.label(f"head{k}")
        before = self.enter_loop(k, st)
        i = load(b, u64, slot)
        b.put(f"br i1 {(i < end).name}, label %body{k}, label %out{k}")
        b.label(f"body{k}")
        self.bind(name, i)
        loop = _Loop(f"next{k}", f"out{k}", before, self.b.region)
        self.loop_body(loop, st)
        if not self.dead:
            b.put(f"br label %next{k}")
        b.label(f"next{k}")
        j = load(b, u64, slot)
        store(b, u64, j + step, slot)
        # a step that would pass 2^64 ends the loop
        again = f"head{k}"
        if step > 1:
            b.put(f"br i1 {((end - j) > step).name}, label %{again}, label %out{k}")
        else:
            b.put(f"br label %{again}")
        self.leave()
        self.join(before, *loop.at_break)
        b.label(f"out{k}")

    def s_Break(self, st: ast.Break) -> None:
        self.jump(st, lambda loop: loop.out)
        self.loops[-1].at_break.append(self.env)

    def s_Continue(self, st: ast.Continue) -> None:
        self.jump(st, lambda loop: loop.again)
        self.next_pass(self.loops[-1], st)

    def jump(self, st: ast.stmt, where: Any) -> None:
        if not self.loops:
            raise self.fail("break and continue belong in a run-time loop", st)
        self.b.put(f"br label %{where(self.loops[-1])}")
        self.dead = True

    def s_Match(self, st: ast.Match) -> None:
        """``match x:`` with integer constants becomes a jump table."""
        x = self.ex(st.subject)
        if any(case.guard is not None for case in st.cases):
            raise self.fail("a case has no guard", st)
        cases = [(self.patterns(case.pattern), case.body) for case in st.cases]
        if isinstance(x, Int | int):
            self.block(next((body for values, body in cases if values is None or int(x) in values), []))
            return
        if not isinstance(x, Value) or not (isinstance(x.type, type) and issubclass(x.type, Int)):
            raise self.fail("match needs an integer", st)
        b, k = self.b, self.b.fresh()
        entries: dict[str, str] = {}
        default = None
        for n, (values, _) in enumerate(cases):
            if values is None:
                default = n
            else:
                for v in values:  # of equal values the first counts
                    entries.setdefault(lift(v, x.type, b).name, f"case{k}_{n}")
        target, kind = f"none{k}" if default is None else f"case{k}_{default}", llvm_type(x.type)
        table = " ".join(f"{kind} {value}, label %{label}" for value, label in entries.items())
        b.put(f"switch {kind} {x.name}, label %{target} [{table}]")
        before, ends = dict(self.env), []
        for n, (_, body) in enumerate(cases):
            b.label(f"case{k}_{n}")
            self.env, self.dead = dict(before), False
            self.enter(b.fresh())
            self.block(body)
            self.leave()
            if not self.dead:
                b.put(f"br label %join{k}")
                ends.append(self.env)
        if default is None:
            b.label(f"none{k}")
            b.put(f"br label %join{k}")
            ends.append(before)
        self.join(*ends)
        if ends:
            b.label(f"join{k}")

    def patterns(self, p: ast.pattern) -> list[Any] | None:
        if isinstance(p, ast.MatchAs) and p.pattern is None and p.name is None:
            return None
        if isinstance(p, ast.MatchValue):
            return [int(self.ex(p.value))]
        if isinstance(p, ast.MatchOr):
            return [v for q in p.patterns for v in (self.patterns(q) or [])]
        raise self.fail("a case is an integer constant, constants joined by |, or _", p)

    # ------------------------------------------------------------ expressions

    def ex(self, e: ast.expr) -> Any:
        method = getattr(self, "e_" + type(e).__name__, None)
        if method is None:
            raise self.fail(f"{type(e).__name__} is not in the language", e)
        return method(e)

    def e_Constant(self, e: ast.Constant) -> Any:
        return e.value

    def e_Name(self, e: ast.Name) -> Any:
        return self.read(e.id, e)

    def e_Tuple(self, e: ast.Tuple) -> Any:
        return tuple(self.items(e.elts))

    def e_List(self, e: ast.List) -> Any:
        return self.items(e.elts)

    def items(self, elts: list[ast.expr]) -> list[Any]:
        """Elements of a display or arguments of a call, with ``*xs`` spread out."""
        out: list[Any] = []
        for x in elts:
            if isinstance(x, ast.Starred):
                out += list(self.ex(x.value))
            else:
                out.append(self.ex(x))
        return out

    def e_ListComp(self, e: ast.ListComp) -> Any:
        return self.comprehend(e.elt, e.generators)

    def e_GeneratorExp(self, e: ast.GeneratorExp) -> Any:
        return tuple(self.comprehend(e.elt, e.generators))

    def comprehend(self, elt: ast.expr, generators: list[ast.comprehension]) -> list[Any]:
        """A comprehension runs at compile time, over compile-time items."""
        if not generators:
            return [self.ex(elt)]
        g, out = generators[0], []
        items = self.ex(g.iter)
        if isinstance(items, Value):
            raise self.fail("a comprehension runs at compile time: its items cannot be run-time values", g.iter)
        saved = dict(self.env), dict(self.regions)
        for x in items:
            self.assign_unrolled(g.target, x)
            tests = [self.ex(t) for t in g.ifs]
            if all(tests):
                out += self.comprehend(elt, generators[1:])
        self.env, self.regions = saved
        return out

    def e_BinOp(self, e: ast.BinOp) -> Any:
        return self.binary(e.op, self.ex(e.left), self.ex(e.right), e)

    def binary(self, op: ast.operator, a: Any, b: Any, node: ast.AST) -> Any:
        fn = _BINARY.get(type(op))
        if fn is None:
            raise self.fail(f"operator {type(op).__name__} is not in the language: use // and %, sdiv and srem", node)
        return fn(a, b)

    def e_UnaryOp(self, e: ast.UnaryOp) -> Any:
        x = self.ex(e.operand)
        if isinstance(e.op, ast.Not):
            if isinstance(x, Value):
                if x.type is not bool:
                    raise self.fail("`not` needs a bool: write x == 0", e)
                return x ^ True
            return not x
        return -x if isinstance(e.op, ast.USub) else ~x if isinstance(e.op, ast.Invert) else +x

    def e_BoolOp(self, e: ast.BoolOp) -> Any:
        """``and`` / ``or`` evaluate the right side only if needed, as in Python."""
        result = self.condition(e.values[0])
        stop = isinstance(e.op, ast.Or)
        for operand in e.values[1:]:
            if not isinstance(result, Value):
                if bool(result) == stop:
                    return result
                result = self.condition(operand)
                continue
            k, slot = self.b.fresh(), self.b.alloca("i8", "bool")
            store(self.b, bool, result, slot)
            labels = (f"join{k}", f"more{k}") if stop else (f"more{k}", f"join{k}")
            self.b.put(f"br i1 {result.name}, label %{labels[0]}, label %{labels[1]}")
            self.b.label(f"more{k}")
            self.enter(k)
            store(self.b, bool, lift(self.condition(operand), bool, self.b), slot)
            self.leave()
            self.b.put(f"br label %join{k}")
            self.b.label(f"join{k}")
            result = load(self.b, bool, slot)
        return result

    def e_Compare(self, e: ast.Compare) -> Any:
        if len(e.ops) > 1:
            raise self.fail("chained comparison: write (a < b) & (b < c)", e)
        a, b = self.ex(e.left), self.ex(e.comparators[0])
        if isinstance(e.ops[0], ast.Is | ast.IsNot):
            return (a is b) == isinstance(e.ops[0], ast.Is)
        if isinstance(e.ops[0], ast.In | ast.NotIn):
            return (a in b) == isinstance(e.ops[0], ast.In)
        return _COMPARISON[type(e.ops[0])](a, b)

    def e_IfExp(self, e: ast.IfExp) -> Any:
        c = self.condition(e.test)
        if not isinstance(c, Value):
            return self.ex(e.body if c else e.orelse)
        k = self.b.fresh()
        self.b.put(f"br i1 {c.name}, label %then{k}, label %else{k}")
        name = f".if{k}"
        before = dict(self.env)
        for label, side in ((f"then{k}", e.body), (f"else{k}", e.orelse)):
            self.b.label(label)
            self.env = dict(before)
            self.enter(self.b.fresh())
            x = self.ex(side)
            t = inferred_type(x)
            if t is None:
                raise self.fail("both sides of a run-time `if` expression need a type: write u64(0)", side)
            if isinstance(t, ArrayType):
                x = lift(x, SliceType(t.elem), self.b)
            if name in self.locals and self.locals[name].type != inferred_type(x):
                raise self.fail("both sides of an `if` expression must have the same type", e)
            self.bind(name, x)
            self.leave()
            self.b.put(f"br label %join{k}")
        self.b.label(f"join{k}")
        self.env = {**before, name: self.locals[name]}
        return self.read(name, e)

    def e_Attribute(self, e: ast.Attribute) -> Any:
        return getattr(self.ex(e.value), e.attr)

    def e_Subscript(self, e: ast.Subscript) -> Any:
        return self.ex(e.value)[self.index(e.slice)]

    def index(self, e: ast.expr) -> Any:
        if isinstance(e, ast.Slice):
            return slice(*(None if x is None else self.ex(x) for x in (e.lower, e.upper, e.step)))
        return self.ex(e)

    def e_Slice(self, e: ast.Slice) -> Any:
        return self.index(e)

    def e_JoinedStr(self, e: ast.JoinedStr) -> Any:
        return "".join(str(self.ex(v.value)) if isinstance(v, ast.FormattedValue) else self.ex(v) for v in e.values)

    def e_Call(self, e: ast.Call) -> Any:
        f = self.ex(e.func)
        args = self.items(e.args)
        if any(k.arg is None for k in e.keywords):
            raise self.fail("** in a call is not in the language", e)
        kwargs = {k.arg: self.ex(k.value) for k in e.keywords if k.arg}
        if isinstance(f, Function):
            if kwargs:
                raise self.fail("a @function takes positional arguments", e)
            return emit_call(self.module, self.b, f, tuple(args))
        if isinstance(f, ArrayType):
            return self.array(f)
        if isinstance(f, SliceType):
            raise self.fail("a slice is made from an array or another slice", e)
        if f is range:
            if any(isinstance(a, Value) for a in args):
                raise self.fail("a run-time range belongs in a for statement", e)
            return range(*map(int, args))
        if f is len and isinstance(args[0], SliceValue):
            return lift(args[0].n, u64, self.b)
        if isinstance(e.func, ast.Attribute) and e.func.attr in _MUTATORS:
            holder = getattr(f, "__self__", None)
            self.guard_mutation(holder, e)
        emit = getattr(f, "emit_with_builder", None)
        if emit is not None:
            return emit(self.b, *args, **kwargs)
        return f(*args, **kwargs)

    def array(self, t: ArrayType) -> SliceValue:
        """Stack memory, zeroed each time the line runs."""
        elem = llvm_type(t.elem)
        size = t.n * size_of(t.elem)
        kind = f"[{t.n} x {elem}]"
        slot = self.b.alloca(kind, "array", 64 if size >= 64 or elem[0] == "<" else 8)
        if size % 8 == 0 and size <= INLINE_ZEROS:
            for at in range(0, size, 8):
                self.b.put(f"store i64 0, ptr {self.b.emit(f'getelementptr i8, ptr {slot}, i64 {at}')}, align 8")
        else:
            self.b.declares.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
            self.b.put(f"call void @llvm.memset.p0.i64(ptr align 8 {slot}, i8 0, i64 {size}, i1 false)")
        return SliceValue(self.b, t.elem, Value(self.b, PtrType(t.elem), slot), t.n, frozenset([self.b.region]))


def _items(x: Any) -> tuple[Any, ...]:
    return tuple(x.values() if isinstance(x, dict) else x)


def _containers(xs: Iterable[Any]) -> dict[int, tuple[Any, tuple[Any, ...]]]:
    """Python objects among ``xs``, and in those, that can change: by identity, with their contents."""
    out: dict[int, tuple[Any, tuple[Any, ...]]] = {}
    todo = list(xs)
    while todo:
        x = todo.pop()
        if isinstance(x, list | dict | set | tuple) and id(x) not in out:
            if not isinstance(x, tuple):
                out[id(x)] = (x, _items(x))
            todo += _items(x)
    return out


def _assigned(node: ast.AST) -> set[str]:
    """Names that belong to the function because something in it assigns to them."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Store) else set()
    if isinstance(node, ast.comprehension):
        return set()
    return set().union(*map(_assigned, ast.iter_child_nodes(node)))


def _loop_variables(st: ast.AST) -> set[str]:
    return {name for n in ast.walk(st) if isinstance(n, ast.For) for name in _assigned(n.target)}


def _kind(x: Any) -> str:
    return f"a {type(x).__name__}"


def _has_jump(body: list[ast.stmt]) -> bool:
    """Does a break or continue in ``body`` belong to the loop around it?"""
    for st in body:
        if isinstance(st, ast.Break | ast.Continue):
            return True
        if isinstance(st, ast.For | ast.While):
            continue
        for inner in ("body", "orelse"):
            if _has_jump(getattr(st, inner, [])):
                return True
        if isinstance(st, ast.Match) and any(_has_jump(c.body) for c in st.cases):
            return True
    return False


__all__ = ["CompileError", "Module", "call_from_helper", "emit_call", "result_type", "tuple_parts"]
