#!/bin/sh
# Makes a release of the library and of the modules beside it in a clone, installs it from there as a user does,
# and says what to push:
#
#   sh scripts/release.sh VERSION        changes nothing here
#   sh scripts/release.sh VERSION tag    makes the tags in this repository
#
# In the repository the modules require each other at v0.0.0, and replace lines lead from there to the folders
# beside them: so each builds by its own go.mod, before there is any version of the others. In a release they
# require each other at its version, without a replace, because "go install MODULE@latest" refuses a module that
# has one. Those are commits beside the branch, and only tags lead there. The library requires no other module,
# so its tag is on the branch.
set -eu
version=$1 mode=${2:-try}
module=github.com/elector-go/elector

fail() {
	echo "release: $*" >&2
	exit 1
}
echo "$version" | grep -Eqx 'v[01]\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?' ||
	fail "version $version: say it as v0.1.0; from v2 on the module's path has to have it"
here=$(git rev-parse --show-toplevel)
changed=$(git -C "$here" status --porcelain)
[ -z "$changed" ] || fail "commit first, a release is of what is committed:
$changed"

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
tree=$temp/tree
git clone --quiet "$here" "$tree"
for key in user.name user.email; do
	value=$(git -C "$here" config "$key") || fail "git needs $key for the commits of a release"
	git -C "$tree" config "$key" "$value"
done

# Go finds the clone where the modules are published. It has a module cache of its own, filled from there and
# from what this machine has, so that a trial leaves no version in the user's.
go=${GO:-go}
GOPROXY=file://$("$go" env GOMODCACHE)/cache/download,$("$go" env GOPROXY)
export GOPROXY GIT_CONFIG_COUNT=1 "GIT_CONFIG_KEY_0=url.file://$tree.insteadOf" GIT_CONFIG_VALUE_0="https://$module"
export GONOPROXY=$module GONOSUMDB=$module GOVCS=$module:git GOWORK=off
export GOMODCACHE="$temp/cache" GOBIN="$temp/bin" GOFLAGS="-modcacherw -trimpath" # a cache that can be removed

# path prints a folder's module.
path() {
	[ "$1" = . ] && echo "$module" || echo "$module/$1"
}

# requires prints the folders of the modules that the one in this folder requires, and replaces.
requires() {
	sed -n "s|^[[:space:]a-z]*$module/\([^ ]*\) => \.\..*|\1|p; s|^[[:space:]a-z]*$module => \.\..*|.|p" go.mod
}

# All are released, each after those that it requires, except examples and what only the library's own tests need.
cd "$tree"
folders=$(git ls-files go.mod '*/go.mod' | grep -Ev '(^|/)(internal|examples|testdata)/' | xargs -n 1 dirname | while read -r folder; do
	echo "$folder $folder"
	(cd "$folder" && requires) | sed "s|\$| $folder|"
done | tsort)

tags='' refs=''
for folder in $folders; do
	cd "$tree/$folder"
	tag=$version
	[ "$folder" = . ] || tag=$folder/$version
	[ -z "$(git tag --list "$tag")" ] || fail "there is a tag $tag already, and a version cannot be taken back"
	needed=$(requires)
	for other in $needed; do
		"$go" mod edit -dropreplace="$(path "$other")" -require="$(path "$other")@$version"
	done
	! grep '=>' go.mod || fail "$folder/go.mod replaces what is no part of the release"
	if [ -n "$needed" ]; then
		"$go" mod tidy
		git add .
		git commit --quiet --no-verify -m "Release $tag: it requires what is released with it, and replaces nothing"
	fi
	git tag -a -m "$(path "$folder") $version" "$tag"
	tags="$tags $tag"
	refs="$refs refs/tags/$tag:refs/tags/$tag"
done

cd "$temp"
for folder in $folders; do
	latest=$(path "$folder")@latest
	echo "$latest is $("$go" list -m -f '{{.Version}}' "$latest")"
	case $folder in cmd/*)
		"$go" install "$latest"
		says=$("$temp/bin/${folder##*/}" --version)
		echo "go install $latest: $says"
		case $says in *"$version"*) ;; *) fail "that is not $version" ;; esac
		;;
	esac
done

if [ "$mode" = tag ]; then
	# shellcheck disable=SC2086 # a word each
	git -C "$here" fetch --quiet --no-tags "$tree" $refs
	echo "The tags are made. Look at them, and publish them, all in one push:"
else
	echo "Nothing was changed. With TAG=1 the tags are made, and this publishes them:"
fi
printf '\n    git push origin%s\n' "$tags"
