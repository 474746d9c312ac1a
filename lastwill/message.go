package lastwill

import "github.com/elector-go/elector/backend"

// kind is the kind of a message.
type kind string

// Messages from the process, after its hello.
const (
	kindTell   kind = "tell"   // a will
	kindForget kind = "forget" // a session is over
	kindBye    kind = "bye"    // forget everything
)

// message is the content of one packet, as JSON.
type message struct {
	Version int           `json:"v"`
	Kind    kind          `json:"kind"`
	Client  string        `json:"client,omitempty"`  // hello: the same when the process connects again
	Will    *backend.Will `json:"will,omitempty"`    // tell
	Service string        `json:"service,omitempty"` // forget
	Session string        `json:"session,omitempty"` // forget
	Why     string        `json:"why,omitempty"`     // refused
}
