package elector_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/kafka"
)

var brokers strategy.Strategy = kafka.Strategy{}

// step does what three bytes say.
func (s *siege) step(do, where, what byte) {
	key, value := s.key(where), s.value(what)
	switch do % 12 {
	case 0, 1, 2, 3:
		if s.svc.Entry(key).Session != "" {
			value = unmarked(value)
		}
		if err := s.svc.Put(key, value); err == nil {
			s.wrote("put", key, value)
		}
	case 4:
		if key != "/" {
			s.svc.Delete(key)
			s.wrote("delete", key, nil)
		}
	case 5:
		s.commit(backend.Enqueue(key, unmarked(value)))
	case 6:
		s.commit(backend.CreateEphemeral(key, unmarked(value)))
	case 7, 8:
		if i := int(where) % len(s.players); s.players[i].campaign == nil && (s.players[i].term == nil || !s.players[i].term.Valid()) {
			s.enter(i)
		}
	case 9:
		s.resign()
	case 10:
		s.expire()
	case 11:
		time.Sleep(time.Duration(what) * 100 * time.Millisecond)
	}
}

// wrote notes a write, and how it limits what can be expected.
func (s *siege) wrote(did, key string, value []byte) {
	s.note(fmt.Sprintf("%s %.300q %.200q", did, key, value))
	s.torn = s.torn || s.busy() && (key == besieged || strings.HasPrefix(besieged, key+"/"))
	s.numbers = s.numbers || key == besieged+"/controller_epoch" || did == "delete"
}

// commit writes from the hostile session, as candidates do.
func (s *siege) commit(op backend.Op) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if s.session == nil {
		session := must.Get(s.hostile.Open(ctx, backend.OpenOptions{}))(s.t)
		s.session = session
	}
	if made, err := s.session.Commit(ctx, nil, op); err == nil {
		s.wrote(op.Kind.String(), made[0].Key, op.Value)
	}
}

// expire ends the hostile session, with its entries.
func (s *siege) expire() {
	if s.session == nil {
		return
	}
	s.note("the hostile session expires")
	s.hostile.Expire()
	_ = s.session.Close(context.Background()) // it is over
	s.session = nil
}

// resign makes the leaders resign.
func (s *siege) resign() {
	for i, p := range s.players {
		if p.term == nil || !p.term.Valid() {
			continue
		}
		s.note(fmt.Sprintf("candidate %d resigns", i+1))
		assert.NoError(s.t, p.term.Resign(context.Background()))
	}
}

// dir returns the election's directory, as far as it is known.
func (s *siege) dir() string {
	if r, err := layout.DecodeRecord(s.svc.Entry(besieged).Value); err == nil {
		return besieged + "/" + r.Dir
	}
	return besieged
}

func (s *siege) word(n byte) string { return s.words[int(n)%len(s.words)] }

// key returns the key of a hostile write.
func (s *siege) key(n byte) string {
	dir, word := s.dir(), s.word(n/16)
	entry := dir + "/seat"
	if all := s.svc.Entries(dir); len(all) > 0 {
		entry = all[int(n/16)%len(all)].Key
	}
	switch n % 16 {
	case 0:
		return besieged
	case 1:
		return dir
	case 2:
		return dir + "/" + word
	case 3: // what looks like an entry of another session
		i := strings.LastIndexByte(entry, '/')
		return entry[:i] + "/" + word + entry[i+1:]
	case 4:
		return entry + word
	case 5: // and like a later one of the same
		if len(entry) > 0 {
			return entry[:len(entry)-1] + "9"
		}
	case 6, 7:
		return entry
	case 8:
		return entry + "/" + word
	case 9:
		return dir + "/seat"
	case 10:
		return besieged + strings.Repeat("/"+word, 30)
	case 11:
		return besieged + "/" + word
	case 12:
		return besieged + "/controller"
	case 13:
		return besieged + "/controller_epoch"
	case 14:
		return backend.Parent(besieged)
	}
	return dir + strings.Repeat("/d", 300)
}

// value returns the value of a hostile write.
func (s *siege) value(n byte) []byte {
	word, dir := s.word(n/16), strings.TrimPrefix(s.dir(), besieged+"/")
	switch n % 16 {
	case 0, 1:
		return nil
	case 2, 3, 4:
		return []byte(word)
	case 5:
		return bytes.Repeat([]byte(word+"9"), 300_000/(len(word)+1))
	case 6:
		return layout.Record{V: 1, Strategy: s.strategy.Name(), Dir: word}.Encode()
	case 7:
		return layout.Record{V: 1, Strategy: strings.Repeat("other"+word, 2000), Dir: dir}.Encode()
	case 8:
		return layout.Record{V: 1, Strategy: s.strategy.Name(), Dir: dir}.Encode()
	case 9:
		return layout.Record{V: 2, Strategy: s.strategy.Name(), Dir: dir}.Encode()
	case 10, 11:
		return layout.Candidate{ID: word, Value: []byte(word), Leads: true}.Encode()
	case 12:
		return fmt.Appendf(nil, `{"version":1,"brokerid":%d,"timestamp":"%s"}`, n/16, word)
	case 13:
		return fmt.Append(nil, n/16)
	case 14:
		return []byte("2147483647")
	}
	return []byte("{" + strings.Repeat(`"a":{`, 100))
}
