package fencetest

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkTransaction measures a check's cost in a transaction that writes one row, alone and beside seven
// others of its leader. With -args -sync the servers wait for the disk, as they should in production.
func BenchmarkTransaction(b *testing.B) {
	writes := func(ctx context.Context, _ *database, tx *sql.Tx, token uint64) error { return write(ctx, tx, token) }
	claims := func(ctx context.Context, d *database, tx *sql.Tx, token uint64) error {
		return d.fence.ClaimTx(ctx, tx, token)
	}
	ways := []struct {
		name  string
		steps []checker
	}{
		{"unfenced", []checker{writes}},
		{"check-first", []checker{check, writes}},
		{"check-last", []checker{writes, check}},
		{"claim-tx", []checker{claims, writes}},
	}
	for _, k := range kinds[:3] {
		for _, way := range ways {
			for _, atOnce := range []int{1, 8} {
				b.Run(fmt.Sprintf("%s/%s/%d", k.name, way.name, atOnce), func(b *testing.B) {
					d := k.make(b)
					d.SetMaxOpenConns(atOnce)
					d.SetMaxIdleConns(atOnce)
					require.NoError(b, d.fence.Claim(b.Context(), d.DB, 1))
					todo := make(chan struct{})
					errs := make(chan error, atOnce)
					for range atOnce {
						go func() {
							var err error
							for range todo {
								if err == nil {
									err = d.written(b.Context(), way.steps)
								}
							}
							errs <- err
						}()
					}
					for b.Loop() {
						todo <- struct{}{}
					}
					close(todo)
					for range atOnce {
						require.NoError(b, <-errs)
					}
				})
			}
		}
	}
}

func (d *database) written(ctx context.Context, steps []checker) error {
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, step := range steps {
		if err := step(ctx, d, tx, 1); err != nil {
			return err
		}
	}
	return tx.Commit()
}
