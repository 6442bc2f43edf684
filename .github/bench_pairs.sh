#!/bin/sh
# Number of pairs that a comment asks for: "/bench-verify" (20) or "/bench-verify N", N even, 6 to 40. Reads BODY.
set -eu
line=$(printf '%s\n' "${BODY:?}" | tr -d '\r' | head -n 1)
case $line in
    "/bench-verify") pairs=20 ;;
    "/bench-verify "[0-9] | "/bench-verify "[0-9][0-9]) pairs=${line#/bench-verify } ;;
    *) echo "not a request: write /bench-verify, or /bench-verify N" >&2; exit 1 ;;
esac
pairs=${pairs#0}
if [ "${pairs:-0}" -lt 6 ] || [ "$pairs" -gt 40 ] || [ $((pairs % 2)) -ne 0 ]; then
    echo "the number of pairs is even, from 6 to 40" >&2
    exit 1
fi
echo "$pairs"
