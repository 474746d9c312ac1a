package driver_test

import (
	"testing"

	"github.com/elector-go/elector/backend/driver"
)

func TestWaker(t *testing.T) {
	w := driver.NewWaker()
	for range 3 {
		w.Wake() // and does not block
	}
	<-w
	select {
	case <-w:
		t.Error("woken twice")
	default:
	}
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
