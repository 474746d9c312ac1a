package zookeeper

import (
	"slices"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
)

// What has waited for others, or for a larger buffer, until the link broke is not sent: the client library would keep
// it for the next link, whose server may have another history.
func TestNothingWaitsForTheNextLink(t *testing.T) {
	s := newSession(&Config{}, new(ballot), 0)
	s.conn = new(zk.Conn) // whose queue takes nothing
	s.pin.WithBuffer(1<<20, 0)(s.conn)
	s.live()
	s.suspend()
	for n := range 3 {
		batch := make([]*single, n)
		for i := range batch {
			batch[i] = (&multi{parts: []part{{request: &zk.DeleteRequest{Path: "/e/x"}}}}).single(1)
		}
		all := slices.Clone(batch)
		s.sendSingles(batch)
		for _, w := range all {
			<-w.done
			assert.ErrorIs(t, w.result.Error, zk.ErrNoServer)
		}
	}
	_, err := s.request(&multi{parts: []part{{request: &zk.CreateRequest{Path: "/e/x"}}}}, 1)
	assert.ErrorIs(t, err, zk.ErrNoServer)
}
