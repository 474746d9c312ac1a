package driver_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend/driver"
)

func TestWaker(t *testing.T) {
	w := driver.NewWaker()
	for range 3 {
		w.Wake() // and does not block
	}
	<-w
	assert.Empty(t, w, "woken once")
	w.Wake()
	<-w
}

func TestSignal(t *testing.T) {
	var s driver.Signal
	s.Fire() // nobody waits
	first, same := s.Next(), s.Next()
	select {
	case <-first:
		t.Error("woken by what was before")
	default:
	}
	s.Fire()
	<-first
	<-same
	select {
	case <-s.Next():
		t.Error("woken twice")
	default:
	}
}
