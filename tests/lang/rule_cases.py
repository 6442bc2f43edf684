"""Cases for ``test_rules.py``: for each rule of the language a text that is refused and a twin that works.

A text is the body of ``f(x: u64, s: Slice[u64]) -> u64``, or a whole module that defines ``f``. The line to be named
ends with ``#!``; with ``#2`` that of the caller, if the error is in a helper.
"""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    name: str
    message: str  # regular expression
    bad: str
    good: str


RULES = [
    # ---- names and paths
    Rule("a value on every path", "'t' has no value on some path", """
        if x > 5:
            t = u64(1)
        return t  #!
        """, """
        t = u64(0)
        if x > 5:
            t = u64(1)
        return t
        """),
    Rule("a value after a loop", "'t' has no value on some path", """
        for i in range(x):
            t = i
        return t  #!
        """, """
        t = x
        for i in range(x):
            t = i
        return t
        """),
    Rule("a value after match", "'t' has no value on some path", """
        match x:
            case 1:
                t = x + 1
        return t  #!
        """, """
        match x:
            case 1:
                t = x + 1
            case _:
                t = x
        return t
        """),
    Rule("a value on the path of break", "'t' has no value on some path", """
        while True:
            if x > 3:
                break
            t = x
            break
        return t  #!
        """, """
        while True:
            t = x + 1
            if x > 3:
                break
            t = x
            break
        return t
        """),
    Rule("a compile-time name that differs by path", "'xs' has no value on some path", """
        if x > 1:
            xs = [x]
        else:
            xs = [x + 1]
        return xs[0]  #!
        """, """
        xs = (x,)
        if x <= 1:
            xs = (x + 1,)
        return xs[0]
        """),
    Rule("a local hides the constant of its name", "'SIZE' has no value on some path", """
        y = x + SIZE  #!
        SIZE = y
        return SIZE
        """, """
        y = x + SIZE
        return y
        """),
    Rule("a loop variable ends with its loop", "'i' has no value on some path", """
        t = u64(0)
        for i in range(x):
            t += i
        return t + i  #!
        """, """
        t = u64(0)
        i = u64(9)
        for i in range(x):
            t += i
        return t + i
        """),
    Rule("an unknown name", "'y' is not defined", """
        return x + y  #!
        """, """
        y = x
        return x + y
        """),
    Rule("a return on every path", "can end without return", """
        if x > 5:
            return x  #!
        """, """
        if x > 5:
            return x
        return x + 1
        """),
    # ---- types
    Rule("an untyped literal is no variable", r"'t = 0' has no type: write t = u64\(0\)", """
        t = 0  #!
        return t + x
        """, """
        t = u64(0)
        return t + x
        """),
    Rule("an untyped literal is no variable, nor a float", "'t = 1.5' has no type", """
        t = 1.5  #!
        return x
        """, """
        t: u64 = 1
        return x + t
        """),
    Rule("an untyped literal in a tuple", "'t' is rebound under run-time control flow", """
        t = (x, 0)
        while t[0] < 5:
            t = (t[0] + 1, 0)  #!
        return t[0]
        """, """
        t = (x, u64(0))
        while t[0] < 5:
            t = (t[0] + 1, u64(0))
        return t[0]
        """),
    Rule("types do not mix", "u32 used where u64 is needed", """
        y = u32(x)
        return x + y  #!
        """, """
        y = u32(x)
        return x + u64(y)
        """),
    Rule("types of constants do not mix", "u32 used where u64 is needed", """
        return x + u32(1)  #!
        """, """
        return x + u64(u32(1))
        """),
    Rule("signed and unsigned do not mix", "i64 used where u64 is needed", """
        y = i64(x)
        return select(x < y, x, x)  #!
        """, """
        y = i64(x)
        return select(x < u64(y), x, x)
        """),
    Rule("lanes and scalars do not mix", "u64x8 used where u64 is needed", """
        y = u64x8(x)
        return lane(y, 0) + y  #!
        """, """
        y = u64x8(x)
        return lane(y + u64x8(x), 0)
        """),
    Rule("a scalar constant is no lanes", "u64 used where u64x8 is needed", """
        y = u64x8(x) + u64(1)  #!
        return lane(y, 0)
        """, """
        y = u64x8(x) + 1
        return lane(y, 0)
        """),
    Rule("a literal must fit", "literal 256 does not fit u8", """
        return u64(u8(x) + 256)  #!
        """, """
        return u64(u8(x) + 255)
        """),
    Rule("a negative literal must fit", "literal -1 does not fit u64", """
        return x + -1  #!
        """, """
        return x - 1
        """),
    Rule("a converted literal must fit", "literal 4294967296 does not fit u32", """
        return u64(u32(4294967296)) + x  #!
        """, """
        return u64(u32(4294967295)) + x
        """),
    Rule("a lane literal must fit", "does not fit u64", """
        return lane(u64x8(x) + 18446744073709551616, 0)  #!
        """, """
        return lane(u64x8(x) + 18446744073709551615, 0)
        """),
    Rule("a variable keeps its type", "'t' changes its type from u64 to u32", """
        t = x
        t = u32(x)  #!
        return x
        """, """
        t = x
        t = u64(u32(x))
        return t
        """),
    Rule("a declared type holds", "u32 used where u64 is needed", """
        t: u64 = u32(x)  #!
        return t
        """, """
        t: u64 = 7
        return t + x
        """),
    Rule("a kind of tuple is kept", "'t' changes its type", """
        t = Point(x, x)
        t = (x, x)  #!
        return t[0]
        """, """
        t = Point(x, x)
        t = Point(x, x + 1)
        return t.second
        """),
    Rule("the result has its type", "u32 used where u64 is needed", """
        return u32(x)  #!
        """, """
        return u64(u32(x))
        """),
    Rule("no arithmetic on bool", "no arithmetic on bool", """
        return u64((x > 1) + (x > 2))  #!
        """, """
        return u64(x > 1) + u64(x > 2)
        """),
    Rule("no shift of bool", "no shift of bool", """
        y = (x > 1) << (x > 2)  #!
        return x
        """, """
        return u64(x > 1) << u64(x > 2)
        """),
    Rule("no ~ on bool", "write `not x` for a bool", """
        return u64(~(x > 1))  #!
        """, """
        return u64(not x > 1)
        """),
    Rule("no conversion to bool", "a run-time condition", """
        return u64(bool(x))  #!
        """, """
        return u64(x != 0)
        """),
    Rule("no conversion of lanes", "cannot convert u64x8 to u64", """
        return u64(u64x8(x))  #!
        """, """
        return lane(u64x8(x), 0)
        """),
    # ---- conditions
    Rule("the condition of if is bool", "a condition must be bool, not u64: write x != 0", """
        if x:  #!
            return x
        return x + 1
        """, """
        if x != 0:
            return x
        return x + 1
        """),
    Rule("the condition of while is bool", "a condition must be bool", """
        t = x
        while t & 7:  #!
            t -= 1
        return t
        """, """
        t = x
        while t & 7 != 0:
            t -= 1
        return t
        """),
    Rule("a constant condition is bool", "a condition must be bool", """
        if u64(1):  #!
            return x
        return x + 1
        """, """
        if SIZE == 3:
            return x
        return x + 1
        """),
    Rule("what is asserted is bool", "a condition must be bool", """
        assert x + 1  #!
        return x
        """, """
        assert x + 1 != 0
        return x
        """),
    Rule("`not` takes bool", "`not` needs a bool", """
        return u64(not x)  #!
        """, """
        return u64(not x == 0)
        """),
    Rule("`and` takes bool", "a condition must be bool", """
        return u64(x > 1 and x)  #!
        """, """
        return u64(x > 1 and x != 0)
        """),
    Rule("`if` expressions take bool", "a condition must be bool", """
        return x if x else x + 1  #!
        """, """
        return x if x != 0 else x + 1
        """),
    Rule("`if` expressions have typed sides", "both sides of a run-time `if` expression need a type", """
        return x if x > 1 else 0  #!
        """, """
        return x if x > 1 else u64(0)
        """),
    Rule("`if` expressions have sides of one type", "both sides of an `if` expression must have the same type", """
        return u64(x if x > 1 else u32(x))  #!
        """, """
        return x if x > 1 else u64(u32(x))
        """),
    Rule("select takes bool", "the condition of select must be bool", """
        return select(x, x, x + 1)  #!
        """, """
        return select(x != 0, x, x + 1)
        """),
    Rule("select needs a type", "select needs a typed value", """
        return x + select(x > 1, 2, 3)  #!
        """, """
        return x + select(x > 1, u64(2), 3)
        """),
    Rule("lanes are no condition", "a condition must be bool, not boolx8", """
        if u64x8(x) > 1:  #!
            return x
        return x + 1
        """, """
        return lane(select(u64x8(x) > 1, u64x8(x), u64x8(x + 1)), 0)
        """),
    Rule("comparisons do not chain", "chained comparison", """
        return u64(1 < x < 5)  #!
        """, """
        return u64((1 < x) & (x < 5))
        """),
    # ---- operators
    Rule("no // on i64", r"// and % on i64 are ambiguous: use sdiv\(a, b\) or srem\(a, b\)", """
        return u64(i64(x) // 2)  #!
        """, """
        return u64(sdiv(i64(x), 2))
        """),
    Rule("no % on i64", "// and % on i64 are ambiguous", """
        return u64(i64(x) % 2)  #!
        """, """
        return u64(srem(i64(x), 2))
        """),
    Rule("no // on constants of i64", "// and % on i64 are ambiguous", """
        return x + u64(i64(7) // i64(2))  #!
        """, """
        return x + u64(sdiv(i64(7), 2))
        """),
    Rule("no /", "operator Div is not in the language", """
        return x / 2  #!
        """, """
        return x // 2
        """),
    Rule("no **", "unsupported operand", """
        return x ** 2  #!
        """, """
        return x * 2 ** 3
        """),
    Rule("rotations are by constants", "a run-time value where Python needs an integer", """
        return rotl(x, x)  #!
        """, """
        return rotl(x, 3)
        """),
    Rule("rotations are of unsigned values", "i64 used where an unsigned type is needed", """
        return u64(rotr(i64(x), 3))  #!
        """, """
        return rotr(x, 3)
        """),
    Rule("mulhi is of u64", "u32 used where u64 is needed", """
        return mulhi(u32(x), u32(x))  #!
        """, """
        return mulhi(x, x)
        """),
    Rule("there are eight lanes", "there is no lane 8", """
        return lane(u64x8(x), 8)  #!
        """, """
        return lane(u64x8(x), 7)
        """),
    Rule("a shuffle names 16 lanes", "from 0 to 15", """
        y = u64x8(x)
        return lane(shuffle(y, y, (0, 1, 2, 3, 4, 5, 6, 16)), 7)  #!
        """, """
        y = u64x8(x)
        return lane(shuffle(y, y, (0, 1, 2, 3, 4, 5, 6, 15)), 7)
        """),
    # ---- compile-time objects under run-time control flow
    Rule("no append under if", "a Python object is changed under run-time control flow", """
        xs = [x]
        if x > 1:
            xs.append(x)  #!
        return xs[-1]
        """, """
        xs = [x]
        if SIZE > 1:
            xs.append(x + 1)
        return xs[-1]
        """),
    Rule("no item assignment in a loop", "a Python object is changed under run-time control flow", """
        xs = [x, x]
        for i in range(x):
            xs[0] = i  #!
        return xs[0]
        """, """
        xs = Array[u64, 2]()
        for i in range(x):
            xs[0] = i
        return xs[0]
        """),
    Rule("no augmented item in match", "a Python object is changed under run-time control flow", """
        xs = [x, x]
        match x:
            case 1:
                xs[0] += 1  #!
        return xs[0]
        """, """
        xs = [x, x]
        for i in unroll(range(2)):
            xs[i] += 1
        return xs[1]
        """),
    Rule("no change in the right side of `and`", "a Python object is changed under run-time control flow", """
        xs = [x]
        t = x > 1 and xs.pop() > 2  #!
        return x
        """, """
        xs = [x]
        t = xs.pop() > 2 and x > 1
        return u64(t)
        """),
    Rule("no change of an inner list", "a Python object is changed under run-time control flow", """
        xs = ([x], [x])
        if x > 1:
            xs[1][0] = x + 1  #!
        return xs[1][0]
        """, """
        xs = ([x], [x])
        xs[1][0] = x + 1
        return xs[1][0]
        """),
    Rule("no change by a helper", "a Python object is changed under run-time control flow", """
        xs = [x]
        if x > 1:
            push(xs, x)  #!
        return xs[-1]
        """, """
        xs = [x]
        push(xs, x + 1)
        if x > 1:
            ys = [x]
            push(ys, x + 3)
            return ys[1]
        return xs[-1]
        """),
    Rule("no change of the module", "outside of the function", """
        SHARED.append(1)  #!
        return x
        """, """
        own = list(SHARED)
        own.append(4)
        return x + own[-1]
        """),
    Rule("no in-place operator on a list", "a list is not changed in place", """
        xs = [x]
        xs += [x]  #!
        return xs[1]
        """, """
        xs = [x]
        xs = xs + [x]
        return xs[1]
        """),
    Rule("no rebinding of a compile-time name", "'xs' is rebound under run-time control flow", """
        xs = [x]
        if x > 1:
            xs = [x, x]  #!
        return xs[0]
        """, """
        xs = [x]
        xs = [x, x + 1]
        if x > 1:
            ys = [x]
            ys = [x + 2]
            return ys[0]
        return xs[1]
        """),
    Rule("no run-time value in a compile-time name", "'xs' is a compile-time name and cannot become a run-time", """
        xs = [x]
        if x > 1:
            xs = x  #!
        return x
        """, """
        xs = [x]
        xs = x
        return xs
        """),
    Rule("an unrolled variable is new on each pass", "'i' has no value on some path", """
        for i in unroll(range(3)):
            pass
        t = x
        while t < 20:
            t += i  #!
            for i in unroll(range(5)):
                t += 1
        return t
        """, """
        for i in unroll(range(3)):
            pass
        t = x
        while t < 20:
            for i in unroll(range(5)):
                t += i
        return t
        """),
    Rule("a run-time variable is not unrolled in a loop", "'i' is rebound in the loop", """
        i = x
        t = x
        while t < 20:  #!
            t += i + 1
            for i in unroll(range(5)):
                t += 1
        return t
        """, """
        i = x
        t = x
        while t < 20:
            t += i + 1
            for k in unroll(range(5)):
                t += 1
        return t
        """),
    Rule("an unrolled variable is not the run-time one after a break", "'i' has no value on some path", """
        i = x
        for j in range(3):
            for i in unroll(range(2)):
                pass
            break
        return i  #!
        """, """
        i = x
        for j in range(3):
            for k in unroll(range(2)):
                i += k
            break
        return i
        """),
    # ---- statements
    Rule("no break in an unrolled loop", "break and continue are not possible in an unrolled loop", """
        for i in unroll(range(3)):  #!
            if x == i:
                break
        return x
        """, """
        for i in unroll(range(3)):
            for j in range(x):
                break
        for i in range(3):
            if x == i:
                break
        return x
        """),
    Rule("no continue in an unrolled loop", "break and continue are not possible in an unrolled loop", """
        t = x
        for i in unroll(range(3)):  #!
            match t:
                case 1:
                    continue
            t += 1
        return t
        """, """
        t = x
        for i in unroll(range(3)):
            if t != 1:
                t += 1
        return t
        """),
    Rule("loops run over range or unroll", r"a loop runs over range\(...\), or over unroll\(...\)", """
        t = x
        for y in [x, x]:  #!
            t += y
        return t
        """, """
        t = x
        for y in unroll([x, x]):
            t += y
        return t
        """),
    Rule("no unrolling of a slice", "the length of a slice is a run-time value", """
        t = x
        for y in unroll(s):  #!
            t += y
        return t
        """, """
        t = x
        a = Array[u64, 3]()
        for y in unroll(a):
            t += y
        return t
        """),
    Rule("the step of a range is constant", "the step of a range must be a positive constant", """
        t = x
        for i in range(0, 9, x + 1):  #!
            t += i
        return t
        """, """
        t = x
        for i in range(0, 9, SIZE):
            t += i
        return t
        """),
    Rule("the step of a range is positive", "the step of a range must be a positive constant", """
        t = x
        for i in range(9, 0, -1):  #!
            t += i
        return t
        """, """
        t = x
        for i in range(0, 9, 2):
            t += i
        return t
        """),
    Rule("bounds of a range are u64", "u32 used where u64 is needed", """
        t = x
        for i in range(u32(x)):  #!
            t += i
        return t
        """, """
        t = x
        for i in range(u64(u32(x)) % 9):
            t += i
        return t
        """),
    Rule("a run-time range belongs in for", "a run-time range belongs in a for statement", """
        t = x
        for i in unroll(range(x)):  #!
            t += i
        return t
        """, """
        t = x
        for i in unroll(range(SIZE)):
            t += i
        return t
        """),
    Rule("no comprehension of run-time items", "a comprehension runs at compile time", """
        xs = [y + 1 for y in x]  #!
        return xs[0]
        """, """
        xs = [y + 1 for y in (x, x + 1) if SIZE == 3]
        return xs[1]
        """),
    Rule("while takes a run-time condition", "must be a run-time value or True", """
        while SIZE == 4:  #!
            pass
        return x
        """, """
        while True:
            break
        return x
        """),
    Rule("no while ... else", "while ... else is not in the language", """
        t = x
        while t > 5:  #!
            t -= 1
        else:
            t = x
        return t
        """, """
        t = x
        while t > 5:
            t -= 1
        return t
        """),
    Rule("no for ... else", "for ... else is not in the language", """
        for i in range(3):  #!
            pass
        else:
            return x
        return x
        """, """
        for i in range(3):
            pass
        return x
        """),
    Rule("match takes an integer", "match needs an integer", """
        match x > 1:  #!
            case _:
                return x
        """, """
        match u64(x > 1):
            case _:
                return x
        """),
    Rule("cases are constants", "a case is an integer constant", """
        match x:
            case y:  #!
                return y
        """, """
        match x:
            case Kind.SMALL | 5:
                return x
            case _:
                return x + 9
        """),
    Rule("cases have no guard", "a case has no guard", """
        match x:  #!
            case 1 if x > 0:
                return x
        return x + 1
        """, """
        match x:
            case 1:
                return x
        return x + 1
        """),
    Rule("cases fit the type", "literal -1 does not fit u64", """
        match x:  #!
            case -1:
                return x
        return x + 1
        """, """
        match i64(x):
            case -1:
                return x
        return x + 1
        """),
    Rule("no attribute assignment", "cannot assign to this", """
        t = Point(x, x)
        t.first = x  #!
        return x
        """, """
        t = Point(x, x)
        t = t._replace(first=x + 1)
        return t.first
        """),
    Rule("as many names as values", "2 values for 3 names", """
        a, b, c = (x, x)  #!
        return a
        """, """
        (a, b), c = (x, x + 1), x
        return a + b + c
        """),
    Rule("a declaration has a value", "a declaration needs a value", """
        t: u64  #!
        t = x
        return t
        """, """
        t: "u64" = 3
        return t + x
        """),
    Rule("an assertion that cannot hold", "this assertion always fails", """
        assert SIZE == 4  #!
        return x
        """, """
        assert SIZE == 3
        if x == 12345:
            assert False, "not reached"
        return x
        """),
    *(Rule(f"no {name}", f"{node} is not in the language", text, "return x") for name, node, text in (
        ("try", "Try", "try:  #!\n    return x\nexcept Exception:\n    return x"),
        ("with", "With", "with open(x):  #!\n    return x"),
        ("raise", "Raise", "raise ValueError(x)  #!"),
        ("del", "Delete", "del x  #!\nreturn s[0]"),
        ("global", "Global", "global SIZE  #!\nreturn x"),
        ("import", "Import", "import os  #!\nreturn x"),
        ("nested def", "FunctionDef", "def g(y):  #!\n    return y\nreturn g(x)"),
        ("class", "ClassDef", "class C:  #!\n    pass\nreturn x"),
        ("lambda", "Lambda", "g = lambda y: y  #!\nreturn g(x)"),
        ("walrus", "NamedExpr", "return (y := x) + y  #!"),
        ("dict display", "Dict", "d = {1: x}  #!\nreturn d[1]"),
        ("set display", "Set", "d = {1, 2}  #!\nreturn x"),
    )),
    # ---- memory
    Rule("an index in an array", "index 3 is outside an array of 3 elements", """
        a = Array[u64, 3]()
        return a[3] + x  #!
        """, """
        a = Array[u64, 3]()
        return a[2] + x
        """),
    Rule("an index is u64", "u32 used where u64 is needed", """
        return s[u32(x) & 1]  #!
        """, """
        return s[x & 1]
        """),
    Rule("an index is not negative", "literal -1 does not fit u64", """
        return s[-1]  #!
        """, """
        return s[length(s) - 1]
        """),
    Rule("a slice has no step", "a slice has no step", """
        t = s[0:4:2]  #!
        return t[0]
        """, """
        t = s[0:4]
        return t[0]
        """),
    Rule("an element has its type", "u32 used where u64 is needed", """
        a = Array[u64, 3]()
        a[0] = u32(x)  #!
        return a[0]
        """, """
        a = Array[u64, 3]()
        a[0] = u64(u32(x))
        return a[0]
        """),
    Rule("lanes come from u64 elements", "lanes are made of u64 elements", """
        a = Array[u32, 16]()
        return lane(a.load8(0), 0)  #!
        """, """
        a = Array[u64, 16]()
        return lane(a.load8(8), 0) + x
        """),
    Rule("a slice does not unpack", "the length of a slice is a run-time value", """
        a, b = s  #!
        return a
        """, """
        z = Array[u64, 2]()
        z[1] = x
        a, b = z
        return a + b
        """),
    Rule("an Array lasts for one pass", "'kept' is a slice of an Array that lasts for one pass", """
        kept = s[0:2]
        for i in range(3):  #!
            a = Array[u64, 2]()
            a[0] = kept[0] + 1
            kept = a[0:2]
        return kept[0]
        """, """
        a = Array[u64, 2]()
        kept = s[0:2]
        for i in range(3):
            a[0] = kept[0] + 1
            kept = a[0:2]
            part = a[1:2]
        return kept[0]
        """),
    Rule("an Array lasts for one pass, in a tuple and with continue", "'t' is a slice of an Array", """
        t = (s[0:2], x)
        while t[1] < 5:
            a = Array[u64, 2]()
            a[0] = t[0][0] + 1
            t = (a[0:2], t[1] + 1)
            if x > 2:
                continue  #!
            break
        return t[0][0]
        """, """
        a = Array[u64, 2]()
        t = (s[0:2], x)
        while t[1] < 5:
            t = (a[0:2], t[1] + 1)
            if x > 2:
                continue
            break
        return t[0][0]
        """),
    # ---- calls
    Rule("as many arguments as parameters", r"double\(\) takes 1 arguments, got 2", """
        return double(x, x)  #!
        """, """
        return double(x)
        """),
    Rule("an argument has its type", "argument 'y' of double: u32 used where u64 is needed", """
        return double(u32(x))  #!
        """, """
        return double(u64(u32(x)))
        """),
    Rule("arguments have no names", "a @function takes positional arguments", """
        return double(y=x)  #!
        """, """
        return double(x)
        """),
    Rule("no ** in a call", r"\*\* in a call is not in the language", """
        return double(**{})  #!
        """, """
        return double(*[x])
        """),
    Rule("a tuple argument has its size", "2 values where", """
        return total((x, x))  #!
        """, """
        return total((x, x, u64(1)))
        """),
    Rule("an array argument has its size", "used where Array", """
        a = Array[u64, 3]()
        return first_of_four(a)  #!
        """, """
        a = Array[u64, 4]()
        return first_of_four(a) + x
        """),
    Rule("a slice argument has its elements", "argument 'y' of first", """
        a = Array[u32, 3]()
        return first(a)  #!
        """, """
        a = Array[u64, 3]()
        return first(a) + x
        """),
]

PRELUDE = '''
SIZE = 3
SHARED = [1, 2]


class Kind:
    SMALL = 1


class Point(NamedTuple):
    first: u64
    second: u64


def push(xs, x):
    xs.append(x)


@function
def double(y: u64) -> u64:
    return y * 2


@function
def total(t: tuple[u64, u64, u64]) -> u64:
    return t[0] + t[1] + t[2]


@function
def first(y: Slice[u64]) -> u64:
    return y[0]


@function
def first_of_four(y: Array[u64, 4]) -> u64:
    return y[0]


'''

MODULES = [
    Rule("no recursion", "f calls itself: the language has no recursion", """
        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            if x == 0:
                return x
            return f(x - 1, s)  #!
        """, """
        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            t = u64(0)
            while t < x:
                t += 1
            return t
        """),
    Rule("no recursion by way of another", "f calls itself: the language has no recursion", """
        @function
        def g(x: u64, s: Slice[u64]) -> u64:
            return f(x, s)  #!

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            return g(x, s)
        """, """
        @function
        def g(x: u64, s: Slice[u64]) -> u64:
            return s[0]

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            return g(x, s) + g(x, s)
        """),
    Rule("a parameter has a type", "'s' of f has no type annotation", """
        @function  #!
        def f(x: u64, s) -> u64:
            return x
        """, """
        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            return x
        """),
    Rule("a result has a type", "'return' of f has no type annotation", """
        @function  #!
        def f(x: u64, s: Slice[u64]):
            return x
        """, """
        @function
        def f(x: u64, s: "Slice[u64]") -> "u64":
            return x
        """),
    Rule("an annotation is known", "annotation: name 'u128' is not defined", """
        @function  #!
        def f(x: u64, s: Slice[u64]) -> "u128":
            return x
        """, """
        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            return x
        """),
    Rule("no defaults", "without defaults", """
        @function  #!
        def f(x: u64, s: Slice[u64], y: u64 = 3) -> u64:
            return x
        """, """
        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            return x
        """),
    Rule("a procedure returns nothing", "the function is declared to return None", """
        @function
        def g(x: u64) -> None:
            return x  #!

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            g(x)
            return x
        """, """
        @function
        def g(x: u64) -> None:
            return

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            g(x)
            return x
        """),
    Rule("a pointer is no slice", r"a Ptr\[u64\] has no length: Slice\[u64\] is needed", """
        @function
        def g(s: Slice[u64]) -> u64:
            return s[0]

        @function
        def h(p: Ptr[u64]) -> u64:
            return g(p)  #!

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            return h(s)
        """, """
        @function
        def g(p: Ptr[u64]) -> u64:
            return p[0]

        @function
        def h(s: Slice[u64]) -> u64:
            return g(s)

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            return h(s)
        """),
    Rule("a local Array stays", "a slice of an Array cannot leave the function that made the Array", """
        @function
        def g(x: u64) -> Slice[u64]:
            a = Array[u64, 4]()
            t = a[1:3]
            return t  #!

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            return g(x)[0]
        """, """
        @function
        def g(s: Slice[u64]) -> Slice[u64]:
            t = s[1:3]
            return t

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            return g(s)[0]
        """),
    Rule("a local Array stays, whoever hands it on", "a slice of an Array cannot leave the function", """
        @function
        def g(s: Slice[u64], k: u64) -> tuple[Slice[u64], u64]:
            return s[k:], k

        @function
        def h(x: u64) -> tuple[Slice[u64], u64]:
            a = Array[u64, 4]()
            return g(a, u64(1))  #!

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            return h(x)[1]
        """, """
        @function
        def g(s: Slice[u64], k: u64) -> tuple[Slice[u64], u64]:
            return s[k:], k

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            a = Array[u64, 4]()
            return g(a, u64(1))[0][2] + g(s, u64(1))[0][0]
        """),
    Rule("no run-time condition in a helper", "a run-time condition in a plain helper: use select", """
        def smaller(a, b):
            return a if a < b else b  #!

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            return smaller(x, s[0])  #2
        """, """
        def smaller(a, b):
            return select(a < b, a, b)

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            return smaller(x, s[0])
        """),
    Rule("an error in the helper of a helper", "u32 used where u64 is needed", """
        def inner(a, b):
            c = a * 2
            return c + u32(b)  #!

        def outer(a, b):
            return inner(a, b)

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            t = x
            while t < 5:
                t += outer(x, s[0]) + 1  #2
            return t
        """, """
        def inner(a, b):
            c = a * 2
            return c + b

        def outer(a, b):
            return inner(a, b)

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            t = x
            while t < 5:
                t += outer(x, s[0]) + 1
            return t
        """),
    Rule("an exception of a helper", "ValueError: no such round", """
        def rounds(x, n):
            if n > 3:
                raise ValueError("no such round")  #!
            return x + n

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            return rounds(x, 4)  #2
        """, """
        def rounds(x, n):
            if n > 3:
                raise ValueError("no such round")
            return x + n

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            return rounds(x, 3)
        """),
    Rule("a wrong call by a helper", "argument 'a' of g: u32 used where u64 is needed", """
        @function
        def g(a: u64) -> u64:
            return a

        def helper(x):
            return g(u32(x))  #!

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            return helper(x)  #2
        """, """
        @function
        def g(a: u64) -> u64:
            return a + 1

        def helper(x):
            return g(x)

        @function
        def f(x: u64, s: Slice[u64]) -> u64:
            return helper(x)
        """),
]
ALL = [*RULES, *MODULES]

# Rules about types alone, which the interpreter keeps, too.
INTERPRETER_TOO = [
    "types do not mix", "types of constants do not mix", "signed and unsigned do not mix",
    "lanes and scalars do not mix", "a scalar constant is no lanes", "a literal must fit",
    "a negative literal must fit", "a converted literal must fit",
    "a lane literal must fit", "a declared type holds", "the result has its type", "no conversion of lanes",
    "the condition of if is bool", "the condition of while is bool", "what is asserted is bool", "`not` takes bool",
    "`if` expressions take bool", "select takes bool", "lanes are no condition", "no // on i64", "no % on i64", "no /",
    "no **", "rotations are of unsigned values", "mulhi is of u64", "there are eight lanes", "a shuffle names 16 lanes",
    "the step of a range is positive", "bounds of a range are u64", "cases fit the type", "as many names as values",
    "an index in an array", "an index is u64", "an index is not negative", "a slice has no step",
    "an element has its type", "lanes come from u64 elements", "as many arguments as parameters",
    "an argument has its type",
    "a tuple argument has its size", "an array argument has its size", "a slice argument has its elements",
    "a procedure returns nothing", "an exception of a helper", "a wrong call by a helper",
]
