package lastwill

import "github.com/elector-go/elector/backend"

// kind says what a message is.
type kind string

// What the process says, after its hello.
const (
	kindTell   kind = "tell"   // a will
	kindForget kind = "forget" // a session is over
	kindBye    kind = "bye"    // forget everything
)

// message is what one packet holds, as JSON.
type message struct {
	Version int           `json:"v"`
	Kind    kind          `json:"kind"`
	Client  string        `json:"client,omitempty"`  // hello: who connects again is the same
	Will    *backend.Will `json:"will,omitempty"`    // tell
	Service string        `json:"service,omitempty"` // forget
	Session string        `json:"session,omitempty"` // forget
	Why     string        `json:"why,omitempty"`     // refused
}
