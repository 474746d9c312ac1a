package kafka

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
)

// payload is the content of /controller, in the order in which Kafka writes it. Value is this library's: it
// is omitted for a candidate without one, and then the payload is Kafka's to the byte. Kafka's readers skip
// fields that they do not know.
type payload struct {
	Version   int    `json:"version"`
	BrokerID  int32  `json:"brokerid"`
	Timestamp string `json:"timestamp"` // milliseconds since 1970
	Value     []byte `json:"value,omitempty"`
}

// payloadVersion is the version that Kafka before 3.4 wrote. Later ones write 2 and one more field, about the
// migration away from ZooKeeper.
const payloadVersion = 1

func encodeController(broker int32, elected time.Time, value []byte) []byte {
	// Numbers, strings and bytes only: Marshal cannot fail.
	b, _ := json.Marshal(payload{
		Version: payloadVersion, BrokerID: broker,
		Timestamp: strconv.FormatInt(elected.UnixMilli(), 10), Value: value,
	})
	return b
}

// A controller is what /controller tells.
type controller struct {
	broker  int32
	elected time.Time // zero if there is no valid timestamp
	value   []byte
}

// decodeController reads the payload of any version, as Kafka does: by the exact names of its fields, on
// which package json alone would not insist, and with any content of the fields that it does not use. It
// returns false if the payload names no broker.
func decodeController(b []byte) (controller, bool) {
	var fields map[string]json.RawMessage
	var broker *int32
	if json.Unmarshal(b, &fields) != nil || json.Unmarshal(fields["brokerid"], &broker) != nil || broker == nil || *broker < 0 {
		return controller{}, false
	}
	c := controller{broker: *broker}
	if json.Unmarshal(fields["value"], &c.value) != nil {
		c.value = nil // not this library's
	}
	var timestamp string
	if json.Unmarshal(fields["timestamp"], &timestamp) == nil {
		if ms, err := strconv.ParseInt(timestamp, 10, 64); err == nil {
			c.elected = time.UnixMilli(ms)
		}
		if _, err := c.elected.MarshalJSON(); err != nil { // a year that JSON cannot represent: encoding it would fail
			c.elected = time.Time{}
		}
	}
	return c, true
}

// maxEpoch is the highest epoch: Kafka's is a signed 32-bit number.
const maxEpoch = math.MaxInt32

func encodeEpoch(n uint64) []byte { return strconv.AppendUint(nil, n, 10) }

// decodeEpoch reads /controller_epoch. It returns 0 if there is none yet.
func decodeEpoch(e backend.Entry) (uint64, error) {
	mismatch := func(why string) error {
		return fmt.Errorf("%w: %s holds %.40q, %s", strategy.ErrStrategyMismatch, e.Key, e.Value, why)
	}
	if !e.Exists() {
		return 0, nil
	}
	if e.Session != "" {
		return 0, mismatch("and is an ephemeral entry: a persistent one keeps the epoch")
	}
	n, err := strconv.ParseUint(string(e.Value), 10, 64)
	if err != nil || n > maxEpoch {
		return 0, mismatch("which is no epoch: a decimal number up to 2147483647 is wanted")
	}
	return n, nil
}
