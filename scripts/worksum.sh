#!/bin/sh
# Tells whether go.work.sum is complete: whether it, with the go.sum of the modules, has the
# two sums of every module that go.work chooses. Otherwise "go list -m all", "go doc" or
# "go mod download" would change it.
set -eu
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

# Go adds what is missing to the go.work.sum beside go.work, so both are copied, and Go is
# to add it there.
sed "s|^[[:space:]]*\(\..*\)|\"$PWD/\1\"|" go.work >"$copy/go.work"
cp go.work.sum "$copy"
GOWORK="$copy/go.work" "${GO:-go}" list -m -f '{{if not .Main}}{{.Path}} {{.Version}}{{end}}' all >"$copy/chosen"

complete=true
diff -u go.work.sum "$copy/go.work.sum" || complete=false
# Go adds the sum of a module's files when it downloads them. That takes hundreds of
# megabytes, so here it is looked for.
cat go.work.sum $(sed -n 's|^[[:space:]]*\(\..*\)|\1/go.sum|p' go.work) >"$copy/sums"
awk 'NR == FNR { sum[$1 " " $2]; next } NF && !($0 in sum) { print "no sum of " $0; bad = 1 } END { exit bad }' \
	"$copy/sums" "$copy/chosen" || complete=false
if ! $complete; then
	echo "go.work.sum is not complete: commit what 'go mod download' makes of it" >&2
	exit 1
fi
