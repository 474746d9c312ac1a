package etcd

import (
	"fmt"
	"slices"
	"strings"
)

// A right is what a user needs on a key, or on the keys from one up to end.
type right struct {
	from, end string
	write     bool
}

// tellRights is how many rights an error names.
const tellRights = 8

// rights names what the transaction requires, in the words of "etcdctl role grant-permission". The
// servers say only that something is missing.
func (p *plan) rights() string {
	var all []right
	need := func(from, end string, write bool) {
		if _, queued := parseName(from); queued {
			dir, _ := cutLast(from)
			from, end = dir+"/", dir+"0" // names are never used twice
		} else if key, _, fence := strings.Cut(from, fenceMark); fence && end == "" {
			from, end, write = key, key+".", true // resolve puts it
		}
		all = append(all, right{from, end, write})
	}
	for _, key := range p.reads {
		need(key, "", false)
	}
	for _, key := range p.parents {
		need(key+"/", key+"0", false)
	}
	for _, cmp := range p.cmps {
		c := cmp.GetCompare()
		need(string(c.Key), string(c.RangeEnd), false)
	}
	for _, op := range p.then {
		if op.IsTxn() {
			_, queued, _ := op.Txn()
			op = queued[0]
		}
		need(string(op.KeyBytes()), string(op.RangeBytes()), !op.IsGet())
	}
	return tell(all)
}

// tell leaves out what another right covers.
func tell(all []right) string {
	slices.SortFunc(all, func(a, b right) int { return strings.Compare(a.String(), b.String()) })
	all = slices.Compact(all)
	var told []string
	for _, r := range all {
		if !slices.ContainsFunc(all, func(other right) bool { return other != r && other.covers(r) }) {
			told = append(told, r.String())
		}
	}
	if n := len(told); n > tellRights {
		told = append(told[:tellRights-1], fmt.Sprintf("and %d more", n-tellRights+1))
	}
	return strings.Join(told, ", ")
}

func (r right) covers(other right) bool {
	return r.from <= other.from && other.last() <= r.last() && (r.write || !other.write)
}

// last returns the end of the range, also for a single key.
func (r right) last() string {
	if r.end == "" {
		return r.from + "\x00"
	}
	return r.end
}

func (r right) String() string {
	kind, to := "read", ""
	if r.write {
		kind = "readwrite"
	}
	if r.end != "" {
		to = fmt.Sprintf(" to %q", r.end)
	}
	return fmt.Sprintf("%s on %q%s", kind, r.from, to)
}
