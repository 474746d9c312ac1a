// Package nats is a backend on NATS: it keeps all elections of a Backend in one key of a JetStream key-value
// bucket. Package backend/register has what that means, and its limits.
//
// # What the servers must keep
//
// The promises of package backend hold as long as the bucket's stream keeps what it has acknowledged, and
// never acknowledges two values over the same revision. A stream with one replica loses what was not yet
// written to disk when its machine crashes, and by default NATS writes to disk only every two minutes. So
// set in each server's configuration
//
//	jetstream { sync_interval: always }
//
// and give the bucket three replicas on three machines. If a bucket loses revisions all the same, or is
// restored from a backup, two may lead until each has read the bucket again: stop all candidates before you
// restore one.
//
// A read is answered by the stream's leader. A leader that has been cut off from the others may answer with
// an older state for a while, as a ZooKeeper server may. Writes, and so terms, need a majority.
package nats

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/register"
)

// Config configures a Backend. Bucket is required.
type Config struct {
	// Bucket is a key-value bucket, which must exist. Its users need to publish to "$KV.<Bucket>.<Key>" and
	// "$JS.API.STREAM.MSG.GET.KV_<Bucket>", and what a watch of the key needs.
	Bucket string
	// Key is the key in the bucket that holds all elections. Empty means "elector".
	Key string
	// MaxBytes is the maximum size of the key's value. Zero means 1000 KiB, a little less than a server accepts by
	// default.
	MaxBytes int
	// Logger logs changes of a session's state, and what is tried again. Nil logs nothing.
	Logger *slog.Logger
}

// New returns a Backend. It does not connect, and makes no bucket. The connection of js stays the caller's:
// it must outlive all sessions, and reconnect without end (nats.MaxReconnects(-1)).
func New(js jetstream.JetStream, cfg Config) (*register.Backend, error) {
	switch {
	case js == nil:
		return nil, errors.New("nats: the JetStream is nil")
	case cfg.Bucket == "":
		return nil, errors.New("nats: Config.Bucket is empty")
	}
	key := cmp.Or(cfg.Key, "elector")
	return register.New(register.Config{
		Name: "nats", Store: &store{js: js, stream: "KV_" + cfg.Bucket, subject: "$KV." + cfg.Bucket + "." + key, bucket: cfg.Bucket, key: key},
		MaxBytes: cmp.Or(cfg.MaxBytes, 1000<<10), Logger: cfg.Logger,
	})
}

// A store is a key of a bucket. The tag is the sequence of the key's last message.
type store struct {
	js                           jetstream.JetStream
	stream, subject, bucket, key string
}

// patience is how long a request waits for its answer. The client does not say that a connection has broken
// under a request, so a longer wait would not help.
const patience = 5 * time.Second

// Read asks the stream's leader. jetstream.KeyValue.Get may ask any replica, which may be behind.
func (s *store) Read(ctx context.Context) (object []byte, tag string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := json.Marshal(map[string]string{"last_by_subj": s.subject})
	if err != nil {
		return nil, "", err
	}
	reply, err := s.js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+s.stream, request)
	if err != nil {
		return nil, "", fmt.Errorf("read key %s of bucket %s: %w", s.key, s.bucket, err)
	}
	var answer struct {
		Message *struct {
			Seq  uint64 `json:"seq"`
			Hdrs []byte `json:"hdrs"`
			Data []byte `json:"data"`
		} `json:"message"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return nil, "", fmt.Errorf("read key %s of bucket %s: the answer is no JSON: %w", s.key, s.bucket, err)
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, "0", nil
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		return nil, "", fmt.Errorf("bucket %s does not exist: create it before the first session", s.bucket)
	case answer.Error != nil:
		return nil, "", fmt.Errorf("read key %s of bucket %s: %w", s.key, s.bucket, answer.Error)
	case answer.Message == nil:
		return nil, "", fmt.Errorf("read key %s of bucket %s: the answer has no message", s.key, s.bucket)
	}
	tag = strconv.FormatUint(answer.Message.Seq, 10)
	if h := answer.Message.Hdrs; bytes.Contains(h, []byte("KV-Operation:")) || bytes.Contains(h, []byte("Nats-Marker-Reason:")) {
		return nil, tag, nil // the key was deleted, or its age limit has passed
	}
	return nonNil(answer.Message.Data), tag, nil
}

// nonNil makes an empty value one that exists.
func nonNil(object []byte) []byte {
	if object == nil {
		return []byte{}
	}
	return object
}

// Swap publishes the next value on condition of the key's last sequence.
func (s *store) Swap(ctx context.Context, object []byte, tag string) (newTag string, err error) {
	last, err := strconv.ParseUint(tag, 10, 64)
	if err != nil {
		return "", fmt.Errorf("tag %q is no sequence: %w", tag, err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ack, err := s.js.Publish(ctx, s.subject, object, jetstream.WithExpectLastSequencePerSubject(last), jetstream.WithExpectStream(s.stream))
	var refused *jetstream.APIError
	switch {
	case err == nil:
		return strconv.FormatUint(ack.Sequence, 10), nil
	case errors.As(err, &refused) && refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence:
		return "", register.ErrMoved
	case errors.Is(err, nats.ErrMaxPayload):
		return "", fmt.Errorf("%w: %w: see max_payload of the servers", backend.ErrTooLarge, err)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		return "", fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
	}
	return "", fmt.Errorf("write key %s of bucket %s: %w", s.key, s.bucket, err)
}

// Notify implements register.Notifier. A connection that breaks is a notice, too.
func (s *store) Notify(ctx context.Context, changed func(object []byte, tag string)) {
	broken := s.js.Conn().StatusChanged(nats.RECONNECTING, nats.CONNECTED)
	defer s.js.Conn().RemoveStatusListener(broken)
	for ctx.Err() == nil {
		s.watch(ctx, broken, changed)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// watch passes on the updates of one watch, until it ends.
func (s *store) watch(ctx context.Context, broken <-chan nats.Status, changed func(object []byte, tag string)) {
	bucket, err := s.js.KeyValue(ctx, s.bucket)
	if err != nil {
		return
	}
	w, err := bucket.Watch(ctx, s.key, jetstream.UpdatesOnly())
	if err != nil {
		return
	}
	defer func() { _ = w.Stop() }()
	changed(nil, "") // what happened before
	for {
		select {
		case e, open := <-w.Updates():
			switch {
			case !open:
				return
			case e == nil:
			case e.Operation() == jetstream.KeyValuePut:
				changed(nonNil(e.Value()), strconv.FormatUint(e.Revision(), 10))
			default:
				changed(nil, "")
			}
		case <-broken:
			changed(nil, "")
		case <-ctx.Done():
			return
		}
	}
}
