#!/bin/sh
# Makes an archive of the command elector for each platform, and SHA256SUMS:
#
#   sh scripts/dist.sh VERSION FOLDER [GOOS/GOARCH ...]
#
# The same commit and the same Go make the same program, byte for byte, and with the same GNU tar, gzip and zip
# the same archives: all times are those of the commit, and all files root's.
set -eu
version=$1 out=$2
shift 2
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

fail() {
	echo "dist: $*" >&2
	exit 1
}
echo "$version" | grep -Eqx 'v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?' || fail "version $version: say it as v0.1.0"
tar --version 2>/dev/null | grep -q GNU || fail "GNU tar is needed"
command -v zip >/dev/null || fail "zip is needed"
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")/.."
changed=$(git status --porcelain)
[ -z "$changed" ] || fail "commit first, a release is of what is committed:
$changed"
time=$(git show -s --format=%ct HEAD)
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
export GOWORK=off GOFLAGS= CGO_ENABLED=0 TZ=UTC LC_ALL=C
go=${GO:-go}
rule=$(printf '=%.0s' $(seq 78))

# licences prints those of all modules whose code is in the command, and of Go, as most of them ask for.
licences() {
	{
		"$go" list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' . | grep -v '^github.com/elector-go/elector'
		echo "Go $("$go" env GOVERSION) $("$go" env GOROOT)"
	} | sort -u | while read -r module version folder; do
		# Some have a folder of licences.
		find "$folder" -maxdepth 1 \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' \) -exec find {} -maxdepth 1 -type f \; | sort >"$temp/files"
		[ -s "$temp/files" ] || fail "$module $version has no licence in $folder: it cannot be passed on"
		while read -r file; do
			printf '%s\n%s %s: %s\n%s\n\n' "$rule" "$module" "$version" "$(basename "$file")" "$rule"
			cat "$file"
			printf '\n\n'
		done <"$temp/files"
	done
}

for platform; do
	GOOS=${platform%/*} GOARCH=${platform#*/}
	export GOOS GOARCH
	files=$temp/$GOOS-$GOARCH name=elector_${version#v}_${GOOS}_$GOARCH program=elector
	[ "$GOOS" != windows ] || program=elector.exe
	mkdir "$files"
	(
		cd cmd/elector
		"$go" build -trimpath -buildvcs=false -o "$files/$program" \
			-ldflags "-s -w -X github.com/elector-go/elector/cmd/elector/internal/cli.release=$version" .
		licences >"$files/THIRD_PARTY_LICENSES"
	)
	cp LICENSE docs/command.md "$files"
	(
		cd "$files"
		chmod 644 ./*
		chmod 755 "$program"
		touch -d "@$time" ./*
		if [ "$GOOS" = windows ]; then
			rm -f "$out/$name.zip" # zip would add to it
			zip -qX9 "$out/$name.zip" LICENSE THIRD_PARTY_LICENSES command.md "$program"
		else
			tar --format=ustar --owner=0 --group=0 --numeric-owner -cf - LICENSE THIRD_PARTY_LICENSES command.md "$program" | gzip -n9 >"$out/$name.tar.gz"
		fi
	)
done
cd "$out"
sha256sum elector_"${version#v}"_* | tee SHA256SUMS
