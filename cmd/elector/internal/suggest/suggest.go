// Package suggest says what somebody may have meant by a name that there is not.
package suggest

import (
	"fmt"
	"strings"

	"github.com/elector-go/elector/strategy/catalog"
)

// Strategy returns the strategy that the flag --strategy names. The error says which there are.
func Strategy(name string) (catalog.Item, error) {
	item, ok := catalog.Named(name)
	if !ok {
		all := catalog.Names()
		return item, fmt.Errorf("--strategy %q: unknown: there are %s%s", name, strings.Join(all, ", "), DidYouMean(name, all))
	}
	return item, nil
}

// DidYouMean ends an error about a name that is none of all: it asks whether one of those that are nearest to it
// is meant. It is "" if none is near: a third of the letters may be wrong, or the end may be missing.
func DidYouMean(name string, all []string) string {
	var near []string
	least := max(len([]rune(name))/3, 1)
	for _, a := range all {
		d := distance(strings.ToLower(name), a)
		if name != "" && strings.HasPrefix(a, strings.ToLower(name)) {
			d = min(d, 1)
		}
		if d < least {
			near = nil
			least = d
		}
		if d == least {
			near = append(near, a)
		}
	}
	if len(near) == 0 {
		return ""
	}
	return ". Did you mean " + strings.Join(near, " or ") + "?"
}

// distance is how many letters have to be put in, left out or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len([]rune(b))+1)
	for i := range row {
		row[i] = i
	}
	for i, x := range []rune(a) {
		last := row[0] // of the row above
		row[0] = i + 1
		for j, y := range []rune(b) {
			change := last
			if x != y {
				change++
			}
			last = row[j+1]
			row[j+1] = min(change, last+1, row[j]+1)
		}
	}
	return row[len(row)-1]
}
