package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy/fair"
)

// found makes an election's place, which stays, so that what there is afterwards can be
// compared with what there was before.
func found(ctx context.Context, w world, elections ...string) error {
	p, err := w.open()
	if err != nil {
		return err
	}
	shared := backend.Share(p.Backend, 0)
	keep, err := shared.Open(ctx, backend.OpenOptions{})
	if err != nil {
		return err
	}
	for i, election := range elections {
		e, err := elector.New(elector.Config{Backend: shared, Strategy: fair.New(), Election: election, ID: strconv.Itoa(i)})
		if err == nil {
			_, err = e.Campaign(ctx)
			err = errors.Join(err, e.Close(ctx))
		}
		if err != nil {
			return errors.Join(err, keep.Close(ctx))
		}
	}
	return errors.Join(keep.Close(ctx), p.Close())
}
