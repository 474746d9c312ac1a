package main

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
)

func TestSharedLock(t *testing.T) {
	t.Parallel()
	for _, herd := range []bool{false, true} {
		t.Run(fmt.Sprint("herd ", herd), func(t *testing.T) {
			onAll(t, func(t *testing.T, b backend.Backend) {
				l := SharedLock{Dir: keyOf(t), Herd: herd}
				ctx := t.Context()
				reader, another := open(t, b), open(t, b)
				one, err := l.Read(ctx, reader, "1")
				require.NoError(t, err)
				two, err := l.Read(ctx, another, "2")
				require.NoError(t, err, "readers share it")
				writer, late := open(t, b), open(t, b)
				writes := begin(func() (*Hold, error) { return l.Write(ctx, writer, "3") })
				isBlocked(t, b, "the writer", writes.done)
				reads := begin(func() (*Hold, error) { return l.Read(ctx, late, "4") })
				isBlocked(t, b, "the reader behind a writer that waits", reads.done)
				require.NoError(t, two.Release(ctx))
				isBlocked(t, b, "the writer, as one still reads", writes.done)
				require.NoError(t, one.Release(ctx))
				alone := writes.wait(t)
				isBlocked(t, b, "the reader behind the writer", reads.done)
				require.NoError(t, writer.Close(ctx)) // crashes
				<-alone.Done()
				assert.NoError(t, reads.wait(t).Err())
			})
		})
	}
}

// TestReaderLooksAgain: the last writer before a reader gives up while an older one still writes.
func TestReaderLooksAgain(t *testing.T) {
	for _, herd := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			svc := memory.New(memory.Options{})
			l := SharedLock{Dir: "/shared", Herd: herd}
			writes, err := l.Write(t.Context(), open(t, svc), "old")
			require.NoError(t, err)
			ctx, giveUp := context.WithCancel(t.Context())
			s := open(t, svc)
			last := begin(func() (*Hold, error) { return l.Write(ctx, s, "last") })
			synctest.Wait()
			reads := begin(func() (*Hold, error) { return l.Read(t.Context(), open(t, svc), "reader") })
			synctest.Wait()
			later := begin(func() (*Hold, error) { return l.Write(t.Context(), open(t, svc), "later") })
			synctest.Wait()
			giveUp()
			<-last.done
			isBlocked(t, svc, "the reader", reads.done)
			require.NoError(t, writes.Release(t.Context()))
			got := reads.wait(t)
			isBlocked(t, svc, "the later writer", later.done)
			require.NoError(t, got.Release(t.Context()))
			later.wait(t)
		})
	}
}

// TestWriterGoesAsTheReaderLooks: between its listing and its entry. The reader keeps its place in the line.
func TestWriterGoesAsTheReaderLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, l := memory.New(memory.Options{}), SharedLock{Dir: "/shared"}
		writes, err := l.Write(t.Context(), open(t, svc), "")
		require.NoError(t, err)
		writer := svc.Entries(l.writers())[0].Key
		s := open(t, svc).Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
			if c.Kind == backend.CallGet && c.Key == writer {
				assert.NoError(t, writes.Release(ctx))
			}
			return next(ctx)
		}})
		read, err := l.Read(t.Context(), s, "")
		require.NoError(t, err)
		assert.Equal(t, writes.Token()+1, read.Token(), "it has enqueued once")
	})
}

// TestHalfOfAWriterTaken: an operator removes one of a waiting writer's two entries. It takes back the
// other, too: else it would wait for itself. And it does not write beside a reader that has passed it.
func TestHalfOfAWriterTaken(t *testing.T) {
	for _, herd := range []bool{false, true} {
		for _, dir := range []string{"/shared/all", "/shared/writers"} {
			synctest.Test(t, func(t *testing.T) {
				svc := memory.New(memory.Options{})
				l := SharedLock{Dir: "/shared", Herd: herd}
				reads, err := l.Read(t.Context(), open(t, svc), "")
				require.NoError(t, err)
				s := open(t, svc)
				writes := begin(func() (*Hold, error) { return l.Write(t.Context(), s, "") })
				synctest.Wait()
				svc.Delete(entryOf(t, svc, dir, s))
				isBlocked(t, svc, "the writer", writes.done)
				passes := begin(func() (*Hold, error) { return l.Read(t.Context(), open(t, svc), "") })
				synctest.Wait()
				require.NoError(t, reads.Release(t.Context()))
				if herd && dir == l.writers() {
					reads = passes.wait(t)
					isBlocked(t, svc, "the writer, as another reads", writes.done)
					require.NoError(t, reads.Release(t.Context()))
				}
				got := writes.wait(t)
				synctest.Wait()
				assert.NoError(t, got.Err(), "what is given out is held")
				require.NoError(t, got.Release(t.Context()))
				require.NoError(t, passes.wait(t).Release(t.Context()))
				time.Sleep(time.Second)
				assert.Empty(t, append(svc.Entries("/shared/all"), svc.Entries("/shared/writers")...))
			})
		}
	}
}

// TestHerdLosesReplies: each of the lock's commits may be done, and its reply be lost.
func TestHerdLosesReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.New(memory.Options{})
		l, client := SharedLock{Dir: "/shared", Herd: true}, svc.Client("writer")
		s := open(t, client)
		for range 10 {
			for range 3 {
				client.LoseReply(nil)
			}
			h, err := l.Write(t.Context(), s, "")
			require.NoError(t, err)
			require.NoError(t, h.Release(t.Context()))
		}
		time.Sleep(time.Minute)
		assert.Empty(t, append(svc.Entries("/shared/all"), svc.Entries("/shared/writers")...))
	})
}

// TestWriterGoesInTheBackground: its Discards fail, and its entries go later, in any order. Both a reader and a
// writer get on.
func TestWriterGoesInTheBackground(t *testing.T) {
	for _, herd := range []bool{false, true} {
		for _, first := range []string{"/shared/all", "/shared/writers"} {
			for _, name := range []string{"reader", "writer"} {
				synctest.Test(t, func(t *testing.T) {
					svc := memory.New(memory.Options{})
					l := SharedLock{Dir: "/shared", Herd: herd}
					lock := map[string]func(context.Context, *backend.Session, string) (*Hold, error){"reader": l.Read, "writer": l.Write}[name]
					old := open(t, svc)
					_, err := l.Write(t.Context(), old, "")
					require.NoError(t, err)
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					next := begin(func() (*Hold, error) { return lock(ctx, open(t, svc), "") })
					isBlocked(t, svc, name, next.done)
					svc.Delete(entryOf(t, svc, first, old))
					synctest.Wait()
					for _, dir := range []string{l.all(), l.writers()} {
						if dir != first {
							svc.Delete(entryOf(t, svc, dir, old))
						}
					}
					got := next.wait(t)
					synctest.Wait()
					assert.NoError(t, got.Err())
				})
			}
		}
	}
}

// entryOf is the key of a session's entry in a line.
func entryOf(t *testing.T, svc *memory.Service, dir string, s *backend.Session) string {
	t.Helper()
	for _, e := range svc.Entries(dir) {
		if e.Session == s.ID() {
			return e.Key
		}
	}
	t.Fatalf("%s has none in %s", s.ID(), dir)
	return ""
}
