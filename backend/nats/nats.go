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
// and give the bucket three replicas on three machines, and no limit of age:
//
//	nats kv add elections --replicas 3 --storage file
//
// The command elector doctor checks the bucket. If a bucket loses revisions all the same, or is
// restored from a backup, two may lead until each has read the bucket again: stop all candidates before you
// restore one.
//
// A read is answered by the stream's leader. A leader that has been cut off from the others may answer with
// an older state for a while, as a ZooKeeper server may. Writes, and so terms, need a majority. A server that led,
// was frozen, and runs again hears writes beside its successor for some milliseconds. It may refuse one that its
// successor does: the session then finds that it was done. To a caller that gives up just then the outcome is unknown.
//
// Package dialnats opens a Backend by URL.
package nats

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
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
	// SessionTimeout is the timeout of sessions for which Open gets none. Zero means register.DefaultTTL.
	SessionTimeout time.Duration
	// Logger logs changes of a session's state, and what is tried again. Nil logs nothing.
	Logger *slog.Logger
}

// New returns a Backend. It does not connect, and makes no bucket. The connection of js stays the caller's: it
// must outlive all sessions, reconnect without end (nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort), and
// notice within a fraction of the session timeout that a link is dead (nats.PingInterval).
func New(js jetstream.JetStream, cfg Config) (*register.Backend, error) {
	if js == nil {
		return nil, errors.New("nats: the JetStream is nil")
	}
	return NewLazy(func(context.Context) (jetstream.JetStream, error) { return js, nil }, cfg)
}

// NewLazy is New for a connection that is made when it is wanted first. connect is called for each request. It
// returns the same JetStream again and again once it could be made, and soon after ctx has ended.
func NewLazy(connect func(ctx context.Context) (jetstream.JetStream, error), cfg Config) (*register.Backend, error) {
	key := cmp.Or(cfg.Key, "elector")
	switch {
	case connect == nil:
		return nil, errors.New("nats: connect is nil")
	case cfg.Bucket == "":
		return nil, errors.New("nats: Config.Bucket is empty")
	case !bucketName.MatchString(cfg.Bucket):
		return nil, fmt.Errorf("nats: bucket %q: letters, digits, dashes and underscores only", cfg.Bucket)
	case !keyName.MatchString(key):
		return nil, fmt.Errorf("nats: key %q: letters, digits and -_/=. only, and no dot at its ends", key)
	}
	return register.New(register.Config{
		Name: "nats", Store: &store{connect: connect, stream: "KV_" + cfg.Bucket, subject: "$KV." + cfg.Bucket + "." + key, bucket: cfg.Bucket, key: key},
		MaxBytes: cmp.Or(cfg.MaxBytes, 1000<<10), SessionTimeout: cfg.SessionTimeout, Logger: cfg.Logger,
	})
}

var (
	bucketName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	keyName    = regexp.MustCompile(`^[-/_=a-zA-Z0-9]([-/_=.a-zA-Z0-9]*[-/_=a-zA-Z0-9])?$`)
)

// A store is a key of a bucket. The tag is the sequence of the key's last message.
type store struct {
	connect                      func(context.Context) (jetstream.JetStream, error)
	stream, subject, bucket, key string
	seen                         atomic.Uint64 // the key's latest sequence that was seen
}

// patience is how long a request waits for its answer.
const patience = 5 * time.Second

// ending is how long a request may take to say why it has ended.
const ending = 50 * time.Millisecond

// ask calls do with a connection, once there is one, and returns what it returns, or an error as soon as ctx ends
// or patience has passed: the client does not do so while it connects. asked is false if nothing was sent.
func ask[T any](ctx context.Context, s *store, do func(context.Context, jetstream.JetStream) (T, error)) (answer T, asked bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	type result struct {
		answer T
		err    error
	}
	ended := make(chan result, 1)
	var conn atomic.Pointer[nats.Conn] // if it is nil when ctx has ended, it is too late: the client sends nothing then
	go func() {
		var r result
		js, err := s.connect(ctx)
		if err == nil {
			err = connected(ctx, js.Conn())
		}
		if err != nil {
			r.err = fmt.Errorf("no connection to NATS: %w", err)
			ended <- r
			return
		}
		conn.Store(js.Conn())
		whole, cancel := whileConnected(ctx, js.Conn())
		defer cancel()
		r.answer, r.err = do(whole, js)
		if r.err != nil && context.Cause(whole) == errBroken {
			r.err = errBroken
		}
		ended <- r
	}()
	var r result
	select {
	case r = <-ended:
	case <-ctx.Done():
		select {
		case r = <-ended:
		case <-time.After(ending): // what it says is better
			r.err = ctx.Err()
		}
	}
	nc := conn.Load()
	if nc != nil && r.err != nil && r.err != errBroken && ctx.Err() != nil { // the server does not answer what it forbids
		if last := nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
			r.err = fmt.Errorf("%w: %w", backend.ErrDenied, last)
		}
	}
	return r.answer, nc != nil, r.err
}

var errBroken = errors.New("the connection to NATS has broken")

// whileConnected returns a context that ends when the connection breaks: a request gets no answer then.
func whileConnected(ctx context.Context, nc *nats.Conn) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	broken := nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	go func() {
		defer nc.RemoveStatusListener(broken)
		select {
		case <-broken:
			cancel(errBroken)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// blink is how long a connection may be gone until a session is out of touch: it often takes no more to connect to
// another server.
const blink = time.Second / 2

// connected waits for a moment until there is a connection. Requests would wait for it, too, but not say so.
func connected(ctx context.Context, nc *nats.Conn) error {
	if nc.IsConnected() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, blink)
	defer cancel()
	changed := nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer nc.RemoveStatusListener(changed)
	for !nc.IsConnected() {
		if nc.IsClosed() {
			return nats.ErrConnectionClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if err := nc.LastError(); err != nil {
				return err
			}
			return fmt.Errorf("it has broken, and no server of %s takes another", strings.Join(nc.Servers(), ", "))
		}
	}
	return nil
}

// settled is how long it takes at most until a server that was frozen knows that it leads no more.
const settled = time.Second

// Read implements register.Store. It does not believe at once that the bucket went back, because a server that
// leads no more and does not know that answers, too.
func (s *store) Read(ctx context.Context) (object []byte, tag string, err error) {
	for end := time.Now().Add(settled); ; {
		seen := s.seen.Load() // before it is asked
		object, seq, err := s.last(ctx)
		if err != nil {
			return nil, "", err
		}
		if seq < seen {
			if time.Now().Before(end) {
				select {
				case <-time.After(settled / 10):
					continue
				case <-ctx.Done():
					return nil, "", fmt.Errorf("key %s of bucket %s was at %d, and is at %d: %w", s.key, s.bucket, seen, seq, ctx.Err())
				}
			}
			s.seen.CompareAndSwap(seen, seq)
		}
		s.see(seq)
		return object, strconv.FormatUint(seq, 10), nil
	}
}

// see notes a sequence that was seen.
func (s *store) see(seq uint64) {
	for seen := s.seen.Load(); seq > seen && !s.seen.CompareAndSwap(seen, seq); seen = s.seen.Load() {
	}
}

// last asks the stream's leader for the key's last value. jetstream.KeyValue.Get may ask any replica, which may
// be behind.
func (s *store) last(ctx context.Context) (object []byte, seq uint64, err error) {
	request, err := json.Marshal(map[string]string{"last_by_subj": s.subject})
	if err != nil {
		return nil, 0, err
	}
	reply, _, err := ask(ctx, s, func(ctx context.Context, js jetstream.JetStream) (*nats.Msg, error) {
		return js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+s.stream, request)
	})
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, 0, fmt.Errorf("read key %s of bucket %s: JetStream is not enabled: %w", s.key, s.bucket, err)
	case err != nil:
		return nil, 0, fmt.Errorf("read key %s of bucket %s: %w", s.key, s.bucket, err)
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
		return nil, 0, fmt.Errorf("read key %s of bucket %s: the answer is no JSON: %w", s.key, s.bucket, err)
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, 0, nil
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		return nil, 0, fmt.Errorf("bucket %s does not exist: create it, by nats kv add %s --replicas 3 --storage file", s.bucket, s.bucket)
	case answer.Error != nil:
		return nil, 0, fmt.Errorf("read key %s of bucket %s: %w", s.key, s.bucket, answer.Error)
	case answer.Message == nil:
		return nil, 0, fmt.Errorf("read key %s of bucket %s: the answer has no message", s.key, s.bucket)
	}
	if h := answer.Message.Hdrs; bytes.Contains(h, []byte("KV-Operation:")) || bytes.Contains(h, []byte("Nats-Marker-Reason:")) {
		return nil, answer.Message.Seq, nil // the key was deleted, or its age limit has passed
	}
	return nonNil(answer.Message.Data), answer.Message.Seq, nil
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
	ack, asked, err := ask(ctx, s, func(ctx context.Context, js jetstream.JetStream) (*jetstream.PubAck, error) {
		return js.Publish(ctx, s.subject, object, jetstream.WithExpectLastSequencePerSubject(last), jetstream.WithExpectStream(s.stream))
	})
	if err == nil {
		s.see(ack.Sequence)
		return strconv.FormatUint(ack.Sequence, 10), nil
	}
	var refused *jetstream.APIError
	code := jetstream.ErrorCode(0)
	if errors.As(err, &refused) {
		code = refused.ErrorCode
	}
	switch {
	case code == jetstream.JSErrCodeStreamWrongLastSequence, code == jetstream.JSErrCodeStreamWrongLastSequenceConstant: // a cluster says the latter while another value is on its way
		return "", register.ErrMoved
	case errors.Is(err, nats.ErrMaxPayload), code == jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return "", fmt.Errorf("%w: %w: see max_payload of the servers, and the bucket's largest value", backend.ErrTooLarge, err)
	case !asked, errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse):
		return "", fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
	}
	return "", fmt.Errorf("write key %s of bucket %s: %w", s.key, s.bucket, err)
}

// Examine implements register.Examiner.
func (s *store) Examine(ctx context.Context) (found []register.Finding, err error) {
	version := ""
	info, _, err := ask(ctx, s, func(ctx context.Context, js jetstream.JetStream) (*jetstream.StreamInfo, error) {
		version = js.Conn().ConnectedServerVersion()
		stream, err := js.Stream(ctx, s.stream)
		if err != nil {
			return nil, err
		}
		return stream.CachedInfo(), nil
	})
	if err != nil {
		return nil, fmt.Errorf("the settings of bucket %s: %w", s.bucket, err)
	}
	c := info.Config
	add := func(check string, good bool, says, bad, do string) {
		if !good {
			found = append(found, register.Finding{Check: check, Says: says + ": " + bad, Do: do})
			return
		}
		found = append(found, register.Finding{Check: check, Says: says})
	}
	add("version", true, "NATS "+version, "", "")
	add("replicas", c.Replicas > 2, fmt.Sprintf("bucket %s has %d", s.bucket, c.Replicas),
		"with fewer than three nobody leads while a server is down, and what a broken disk has lost is lost",
		"nats stream edit "+s.stream+" --replicas 3, with servers on three machines")
	add("storage", c.Storage == jetstream.FileStorage, "bucket "+s.bucket+" is in storage of the kind "+c.Storage.String(),
		"it is lost with its servers, and two may lead then", "make another bucket, with --storage file")
	age := "values stay"
	if c.MaxAge != 0 {
		age = fmt.Sprintf("values go after %v", c.MaxAge)
	}
	add("age", c.MaxAge == 0, age, "elections may vanish while nobody writes for so long", "make another bucket, without --ttl")
	const enough, value = 4 << 20, 64 << 10
	add("size", (c.MaxBytes <= 0 || c.MaxBytes >= enough) && (c.MaxMsgSize <= 0 || c.MaxMsgSize >= value),
		fmt.Sprintf("at most %d bytes, and %d for a value (-1: any number)", c.MaxBytes, c.MaxMsgSize),
		"all sessions end once that is full", fmt.Sprintf("give the bucket %d bytes, and values %d, or no limits", enough, value))
	if info.Cluster != nil && c.Replicas > 1 {
		var behind []string
		for _, r := range info.Cluster.Replicas {
			if r.Offline || !r.Current {
				behind = append(behind, r.Name)
			}
		}
		add("cluster", len(behind) == 0, "the bucket's leader is "+info.Cluster.Leader, "down or behind are "+strings.Join(behind, ", "), "see their logs")
	}
	return append(found, register.Finding{
		Check: "sync", Says: "servers do not tell clients their sync_interval, which is two minutes by default", Hid: true,
		Do: "see that each server has jetstream { sync_interval: always }: otherwise a machine that loses power forgets what it acknowledged",
	}), nil
}

// Notify implements register.Notifier. A connection that breaks is a notice, too.
func (s *store) Notify(ctx context.Context, changed func(object []byte, tag string)) {
	for ctx.Err() == nil {
		s.watch(ctx, changed)
		select {
		case <-time.After(time.Second / 4):
		case <-ctx.Done():
		}
	}
}

// watch passes on the updates of one watch, until it ends.
func (s *store) watch(ctx context.Context, changed func(object []byte, tag string)) {
	js, err := s.connect(ctx)
	if err != nil {
		return
	}
	broken := js.Conn().StatusChanged(nats.RECONNECTING, nats.CONNECTED)
	defer js.Conn().RemoveStatusListener(broken)
	bucket, err := js.KeyValue(ctx, s.bucket)
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
				s.see(e.Revision())
				changed(nonNil(e.Value()), strconv.FormatUint(e.Revision(), 10))
			default:
				changed(nil, "")
			}
		case status := <-broken:
			changed(nil, "")
			if status == nats.CONNECTED {
				return // the server may have forgotten the watch, and the client takes ten seconds or more to notice
			}
		case <-ctx.Done():
			return
		}
	}
}
