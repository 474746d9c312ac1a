package mutants

import (
	"context"
	"math"
	"slices"

	"github.com/elector-go/elector/backend"
)

// swapped exchanges each two revisions that follow one another.
func swapped(rev uint64) uint64 {
	if rev == 0 || rev == math.MaxUint64 {
		return rev // no entry, and an unknown one
	}
	return (rev - 1) ^ 1 + 1
}

func swapEntries(entries []backend.Entry) []backend.Entry {
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].Rev = swapped(entries[i].Rev)
	}
	return entries
}

// swapRevisions has all revisions swapped, on the way in and out.
func swapRevisions(s *backend.Session, o *over) {
	o.all = func(ctx context.Context, c *backend.Call) error {
		below := *c
		below.Entry.Rev = swapped(c.Entry.Rev)
		below.KnownEntries = swapEntries(c.KnownEntries)
		below.Conditions, below.Ops = slices.Clone(c.Conditions), slices.Clone(c.Ops)
		for i := range below.Conditions {
			below.Conditions[i].Entry.Rev = swapped(below.Conditions[i].Entry.Rev)
		}
		for i := range below.Ops {
			below.Ops[i].Rev = swapped(below.Ops[i].Rev)
		}
		err := below.By(ctx, s)
		c.Found, c.Strangers, c.Children, c.More = below.Found, below.Strangers, below.Children, below.More
		c.Listing, c.Entries = below.Listing, swapEntries(below.Entries)
		c.Found.Rev = swapped(c.Found.Rev)
		return err
	}
}
