package etcd

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// An enqueued entry's place in the queue is its ticket, the revision of the transaction
// that has enqueued it. Its key has one of these forms:
//
//	<dir>/1-<ticket>-<lease>-<nonce>   ordered: others were before it
//	<dir>/2-<lease>-<nonce>            alone: nobody was; the ticket is its create revision
//	<dir>/2-<lease>-<nonce>-t          in transit to the ordered form: see enqueued
//
// The ordered keys sort like the queue, so that one range holds an entry and its predecessor and
// nobody else: one watch covers both. The ticket is written as its distance from the highest
// revision, so that the youngest comes first: the server finds the next key after another by itself,
// but the one before it only by reading all. Those that were alone come last, so that between a
// former leader and the second in line there is nobody either.
//
// Names are never used twice.
const (
	orderedPrefix = "1-"
	firstPrefix   = "2-"
	endPrefix     = "3"
	transitSuffix = "-t"

	hexDigits = 16

	maxTicket = math.MaxInt64
)

// A name is the content of an enqueued entry's key.
type name struct {
	ordered bool
	transit bool
	ticket  uint64 // of an ordered entry
	lease   clientv3.LeaseID
}

// queueRange returns the range of the keys of all entries enqueued in dir.
func queueRange(dir string) (key, end string) {
	return dir + "/" + orderedPrefix, dir + "/" + endPrefix
}

// aloneKey returns the key of an entry with nobody before it; with transitSuffix, of one with somebody
// before it.
func aloneKey(dir, session, nonce string) string {
	return dir + "/" + firstPrefix + session + "-" + nonce
}

// orderedKey returns the ordered form of a key in transit.
func orderedKey(transit string, ticket uint64) string {
	dir, last := cutLast(transit)
	return orderedFrom(dir, ticket) + strings.TrimSuffix(strings.TrimPrefix(last, firstPrefix), transitSuffix)
}

// orderedFrom returns the prefix of the ordered keys with this ticket; those with a lower one come
// after them.
func orderedFrom(dir string, ticket uint64) string {
	return fmt.Sprintf("%s/%s%016x-", dir, orderedPrefix, math.MaxInt64-ticket)
}

func cutLast(key string) (dir, last string) {
	i := strings.LastIndexByte(key, '/')
	return key[:max(i, 0)], key[i+1:]
}

// parseName parses the last segment of a key.
func parseName(key string) (name, bool) {
	_, last := cutLast(key)
	var n name
	switch {
	case strings.HasPrefix(last, orderedPrefix):
		ticket, rest, _ := strings.Cut(last[len(orderedPrefix):], "-")
		from, err := strconv.ParseInt(ticket, 16, 64)
		if err != nil || len(ticket) != hexDigits || !driver.IsHex(ticket) {
			return name{}, false
		}
		n.ordered, n.ticket, last = true, uint64(math.MaxInt64-from), rest
	case strings.HasPrefix(last, firstPrefix):
		last, n.transit = strings.CutSuffix(last[len(firstPrefix):], transitSuffix)
	default:
		return name{}, false
	}
	session, nonce, _ := strings.Cut(last, "-")
	lease, ok := parseSession(session)
	n.lease = lease
	if !ok || len(nonce) != hexDigits || !driver.IsHex(nonce) {
		return name{}, false
	}
	return n, true
}

// ticketOf returns the ticket of an enqueued entry, and false for a key that only looks like one.
func ticketOf(kv *mvccpb.KeyValue) (uint64, bool) {
	n, ok := parseName(string(kv.Key))
	switch {
	case !ok || int64(n.lease) != kv.Lease:
		return 0, false
	case !n.ordered:
		return uint64(kv.CreateRevision), true
	}
	return n.ticket, n.ticket > 0 && n.ticket <= uint64(kv.CreateRevision)
}

// toEntry converts what is under a key to an Entry; nil means nothing. An enqueued entry that somebody
// overwrote without its lease counts as nothing, too: it would never go.
func toEntry(key string, kv *mvccpb.KeyValue) backend.Entry {
	if kv == nil {
		return backend.Entry{Key: key}
	}
	if n, ok := parseName(string(kv.Key)); ok && int64(n.lease) != kv.Lease {
		return backend.Entry{Key: key}
	}
	e := backend.Entry{Key: key, Value: kv.Value, Rev: uint64(kv.CreateRevision), Version: uint64(kv.Version)}
	if kv.Lease != 0 {
		e.Session = formatSession(clientv3.LeaseID(kv.Lease))
	}
	if ticket, ok := ticketOf(kv); ok {
		e.Rev = ticket
	}
	return e
}

// formatSession returns a session's ID: the lease's ID in hex, as etcd's own tools write it.
func formatSession(id clientv3.LeaseID) string { return strconv.FormatInt(int64(id), 16) }

// parseSession parses what formatSession has written.
func parseSession(text string) (clientv3.LeaseID, bool) {
	n, err := strconv.ParseInt(text, 16, 64)
	id := clientv3.LeaseID(n)
	return id, err == nil && id > 0 && formatSession(id) == text
}
