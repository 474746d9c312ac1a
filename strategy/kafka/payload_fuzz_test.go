package kafka

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// FuzzController holds that what is written is read back, and that from any other payload exactly the broker
// is read that Kafka's own readers see: the number under "brokerid", with any other fields.
func FuzzController(f *testing.F) {
	for _, payload := range []string{
		`{"version":1,"brokerid":7,"timestamp":"1700000000000"}`, `{"version":2,"brokerid":7,"timestamp":"1","kraftControllerEpoch":-1}`,
		`{"brokerid":7}`, `{"brokerid":-1}`, `{"brokerid":2147483648}`, `{"brokerid":"7"}`, `{"brokerid":7.5}`, `{"brokerid":null}`, `{}`, `null`, `[]`, `7`, ``,
		`{"BROKERID":7}`, `{"brokerid":1,"BrokerID":2}`, `{"brokerid":1,"brokerid":2}`, `{"brokerid":7,"timestamp":17}`, `{"brokerid":7,"version":"1"}`,
		`{"brokerid":7,"value":5}`, `{"brokerid":7}x`, `{"brokerid":7,"timestamp":"99999999999999999999"}`, `{"brokerid":7,"timestamp":"9223372036854775807"}`,
	} {
		f.Add([]byte(payload), int32(7), int64(1700000000000))
	}
	f.Fuzz(func(t *testing.T, foreign []byte, broker int32, ms int64) {
		broker &= 1<<31 - 1
		own := encodeController(broker, time.UnixMilli(ms), foreign)
		got, ok := decodeController(own)
		elected := time.UnixMilli(ms)
		if _, err := elected.MarshalJSON(); err != nil {
			elected = time.Time{}
		}
		if !ok || got.broker != broker || !got.elected.Equal(elected) || !bytes.Equal(got.value, foreign) {
			t.Fatalf("%s is read as %+v, %t", own, got, ok)
		}
		got, ok = decodeController(foreign)
		want, names := kafkaReads(foreign)
		if ok != names || ok && got.broker != want {
			t.Errorf("%q is read as %+v, %t; Kafka reads %d, %t", foreign, got, ok, want, names)
		}
		if !ok && (got.broker != 0 || got.value != nil || !got.elected.IsZero()) {
			t.Errorf("%q names no broker, and is %+v", foreign, got)
		}
	})
}

// kafkaReads returns the broker that Kafka sees in a payload (ControllerZNode.decode): the field of exactly
// that name, the last one if there are several.
func kafkaReads(payload []byte) (int32, bool) {
	var fields map[string]any
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber()
	if !json.Valid(payload) || dec.Decode(&fields) != nil {
		return 0, false
	}
	number, _ := fields["brokerid"].(json.Number)
	id, err := strconv.ParseInt(number.String(), 10, 32)
	return int32(id), err == nil && id >= 0
}

// FuzzEpoch holds that an epoch is a number or refused, that the next one is higher, and that the refusal
// says what the entry holds.
func FuzzEpoch(f *testing.F) {
	for _, value := range []string{"", "0", "1", "007", "+1", "-1", "2147483647", "2147483648", "18446744073709551616", "1_0", "0x1", " 1", "1\n", "é", strings.Repeat("9", 500)} {
		f.Add([]byte(value), "")
		f.Add([]byte(value), "session")
	}
	f.Fuzz(func(t *testing.T, value []byte, session string) {
		e := backend.Entry{Key: "/controller_epoch", Value: value, Rev: 3, Version: 1, Session: session}
		n, err := decodeEpoch(e)
		if err != nil {
			message := err.Error()
			if !errors.Is(err, elector.ErrStrategyMismatch) || !strings.Contains(message, e.Key) || len(message) > 400 || strings.ContainsFunc(message, func(r rune) bool { return r < ' ' }) {
				t.Errorf("%q: %q", value, message)
			}
			if n != 0 {
				t.Errorf("%q is refused, and is %d", value, n)
			}
			return
		}
		if trimmed := strings.TrimLeft(string(value), "0"); session != "" || n > maxEpoch || len(value) == 0 || trimmed != fmt.Sprint(n) && (n != 0 || trimmed != "") {
			t.Fatalf("%q of session %q is epoch %d", value, session, n)
		}
		next, err := decodeEpoch(backend.Entry{Rev: 3, Version: 2, Value: encodeEpoch(n + 1)})
		if n < maxEpoch && (err != nil || next != n+1) {
			t.Errorf("after epoch %d comes %d: %v", n, next, err)
		}
	})
}

// FuzzBrokerID holds that an ID is a broker's only if it is written as Kafka writes it.
func FuzzBrokerID(f *testing.F) {
	for _, id := range []string{"", "0", "7", "007", "-0", "+1", "2147483647", "2147483648", "1_0", "٣"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		n, err := brokerID(id)
		if err == nil && (n < 0 || fmt.Sprint(n) != id) {
			t.Errorf("%q is broker %d", id, n)
		}
		if err != nil && !strings.Contains(err.Error(), strconv.Quote(id)) {
			t.Errorf("%q: %v", id, err)
		}
	})
}
