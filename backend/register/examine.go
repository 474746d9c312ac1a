package register

import "context"

// An Examiner is a Store that can tell which of its settings weaken what it promises.
type Examiner interface {
	Store
	// Examine reads the store's settings, and writes nothing. The error says why they cannot be read.
	Examine(ctx context.Context) ([]Finding, error)
}

// A Finding is about a setting of a store. The command elector doctor prints it.
type Finding struct {
	Check string // what was looked at, in a word
	Says  string // what was found
	Do    string // what to do about it. Empty: nothing is wrong
	Hid   bool   // the store does not show it: Do says how to find out
}

// Examine asks a Store that is an Examiner, and returns nothing for others.
func (b *Backend) Examine(ctx context.Context) ([]Finding, error) {
	if e, ok := b.cfg.Store.(Examiner); ok {
		return e.Examine(ctx)
	}
	return nil, nil
}
