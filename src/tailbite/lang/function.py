"""``@function``: a typed Python function, its interpreter, and the names it sees."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import textwrap
from collections.abc import Callable
from typing import Any

from ..errors import CompileError, Trap
from .types import Memory, from_python, typed_range, u64


class Unroll:
    """``unroll(xs)`` in a ``for``: the body is repeated at compile time, once for each item."""

    def __init__(self, items: Any) -> None:
        self.items = list(items)

    def __iter__(self) -> Any:
        return iter(self.items)


def unroll(items: Any) -> Unroll:
    """Iterate at compile time, e.g. ``for k in unroll(range(4))``; the loop variable is a plain Python object."""
    return Unroll(items)


class Function:
    """A function of the language. Calling it interprets it; targets compile it.

    ``signature`` maps parameter names to types, ``returns`` is the result type or None.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.name = fn.__name__
        self.file = inspect.getsourcefile(fn) or "?"
        self.first_line = fn.__code__.co_firstlineno
        self.guest: Callable[..., Any] | None = None

    def on_guest(self, twin: Callable[..., Any]) -> Any:
        """Compile ``twin``, a @function or a plain helper, in place of this one for guests: e.g. a system call."""
        self.guest = twin
        return twin

    @functools.cached_property
    def hints(self) -> dict[str, Any]:
        """Types of parameters and, as ``return``, of the result."""
        return self.declared_hints()

    def declared_hints(self) -> dict[str, Any]:
        """The annotations as they stand in the source; CompileError if one is missing or unknown."""
        try:
            hints = inspect.get_annotations(self.fn, eval_str=True)
        except NameError as e:
            raise self.error(self.first_line, f"annotation: {e}") from None
        for name in [*inspect.signature(self.fn).parameters, "return"]:
            if name not in hints:
                raise self.error(self.first_line, f"'{name}' of {self.name} has no type annotation")
        return hints

    @functools.cached_property
    def signature(self) -> dict[str, Any]:
        return {k: v for k, v in self.hints.items() if k != "return"}

    @functools.cached_property
    def returns(self) -> Any:
        t = self.hints["return"]
        return None if t is type(None) else t

    @functools.cached_property
    def tree(self) -> ast.FunctionDef:
        """Syntax tree with true line numbers."""
        lines, first = inspect.getsourcelines(self.fn)
        node = ast.parse(textwrap.dedent("".join(lines))).body[0]
        if not isinstance(node, ast.FunctionDef):
            raise self.error(first, "@function needs a plain def")
        a = node.args
        if a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs or a.defaults:
            raise self.error(first, "a @function takes plain positional parameters without defaults")
        return ast.increment_lineno(node, first - 1)

    @functools.cached_property
    def namespace(self) -> dict[str, Any]:
        """Names visible to the body: compile-time constants from module and closure."""
        names = dict(builtins.__dict__)
        names.update(self.fn.__globals__)
        cells = self.fn.__closure__ or ()
        names.update({k: c.cell_contents for k, c in zip(self.fn.__code__.co_freevars, cells, strict=True)
                      if _filled(c)})
        return names

    def error(self, line: int, message: str) -> CompileError:
        return located(self.file, line, message)

    @functools.cached_property
    def interpreted(self) -> Callable[..., Any]:
        """The same tree, run by CPython on wrapping integers: what the function means."""
        tree = ast.parse("")
        node = _Interpretable(self).visit(_copy(self.tree))
        node.decorator_list, node.returns = [], None
        for a in node.args.args:
            a.annotation = None
        tree.body = [node]
        code = compile(ast.fix_missing_locations(tree), self.file, "exec")
        scope = dict(self.namespace)
        scope |= {"__typed": from_python, "__typed_range": typed_range, "__typed_assert": _typed_assert}
        if scope["len"] is len:
            scope["len"] = _typed_len
        exec(code, scope)
        return scope[node.name]

    def __call__(self, *args: Any) -> Any:
        from .values import SliceValue, Value

        if any(isinstance(a, Value | SliceValue) for a in args) or any(_holds_values(a) for a in args):
            from .lower import call_from_helper

            return call_from_helper(self, args)
        if len(args) != len(self.signature):
            raise TypeError(f"{self.name}() takes {len(self.signature)} arguments, got {len(args)}")
        typed = [from_python(a, t) for a, t in zip(args, self.signature.values(), strict=True)]
        return from_python(self.interpreted(*typed), self.returns)


def function(fn: Callable[..., Any]) -> Function:
    """Mark a typed Python function for the compiler. A plain call interprets it."""
    return Function(fn)


def located(file: str, line: int, message: str) -> CompileError:
    """A CompileError that begins with file and line and ends with the source line."""
    text = linecache.getline(file, line).strip()
    return CompileError(f"{file}:{line}: {message}\n    {text}")


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is cell.cell_contents
    except ValueError:
        return False


def _copy(node: ast.FunctionDef) -> ast.FunctionDef:
    import copy

    return copy.deepcopy(node)


def _holds_values(x: Any) -> bool:
    from .values import SliceValue, Value

    return isinstance(x, tuple) and any(isinstance(e, Value | SliceValue) or _holds_values(e) for e in x)


def _typed_len(x: Any) -> Any:
    return u64(len(x)) if isinstance(x, Memory) else len(x)


def _typed_assert(ok: Any, where: str) -> None:
    if not ok:
        raise Trap(where)


class _Interpretable(ast.NodeTransformer):
    """Replace ``range`` by the typed one and ``assert`` by one that survives ``-O``."""

    def __init__(self, fn: Function) -> None:
        self.fn = fn

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        """``x: T = e`` converts an untyped literal, as the compiler does."""
        self.generic_visit(node)
        if node.value is None:
            return node
        t = node.annotation
        if isinstance(t, ast.Constant) and isinstance(t.value, str):
            t = ast.parse(t.value, mode="eval").body
        call = ast.Call(ast.Name("__typed", ast.Load()), [node.value, t], [])
        return ast.copy_location(ast.Assign([node.target], call), node)

    def visit_For(self, node: ast.For) -> Any:
        it = node.iter
        if isinstance(it, ast.Call) and isinstance(it.func, ast.Name) and self._is_range(it.func):
            it.func.id = "__typed_range"
        node.body = [self.visit(s) for s in node.body]
        return node

    def _is_range(self, name: ast.Name) -> bool:
        return self.fn.namespace.get(name.id) is range

    def visit_Assert(self, node: ast.Assert) -> Any:
        where = ast.Constant(f"{self.fn.file}:{node.lineno}: assertion failed: {_message(node, self.fn.file)}")
        call = ast.Call(ast.Name("__typed_assert", ast.Load()), [self.visit(node.test), where], [])
        return ast.copy_location(ast.Expr(call), node)


def _message(node: ast.Assert, file: str) -> str:
    if isinstance(node.msg, ast.Constant):
        return str(node.msg.value)
    return linecache.getline(file, node.lineno).strip()
