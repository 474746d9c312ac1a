package main

import (
	"context"
	"net/netip"
	"time"

	"github.com/elector-go/elector/backend"
)

// patience is how many times in a row an address must be dead before it is removed.
const patience = 3

// Scan is the scanner of names.go. It tries all addresses in dir again and again, and removes those that were
// dead three times in a row. It removes none while more than half are dead: then the scanner itself is
// probably cut off. So the only address in dir stays, even if it is dead. Several scanners do no harm: each
// removes the incarnation that it has tried, and not one registered since. It calls say for each address that
// it removes.
func Scan(ctx context.Context, s *backend.Session, dir string, every time.Duration,
	alive func(context.Context, netip.AddrPort) bool, say func(string, ...any),
) error {
	type registered struct {
		backend.Entry
		Address
	}
	for found := make(map[string]int); ; { // dead so many times in a row, by key
		line, err := s.List(ctx, dir)
		if err != nil {
			return err
		}
		before := found
		found = make(map[string]int) // forgets those that have gone
		var dead []registered
		all := 0
		for _, key := range line.Keys {
			e, a, err := readAddress(ctx, s, key)
			if err != nil {
				return err
			}
			if a.Name == "" {
				continue
			}
			if all++; alive(ctx, a.Addr) {
				continue
			}
			if found[key] = before[key] + 1; found[key] >= patience {
				dead = append(dead, registered{e, a})
			}
		}
		if len(found) > all/2 { // those found dead for the first time count, too
			say("finds %d of %d dead, and leaves them: it may be cut off itself", len(found), all)
			dead = nil
		}
		for _, d := range dead {
			_, err := s.Commit(ctx, nil, backend.Delete(d.Entry))
			switch {
			case err == nil:
				say("takes out %s at %v", d.Name, d.Addr)
			case !refused(err) && !again(ctx, err): // otherwise another may have removed it
				return err
			}
		}
		if err := sleep(ctx, every); err != nil {
			return err
		}
	}
}
