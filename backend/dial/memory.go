package dial

import (
	"errors"
	"sync"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
)

// named are the services of this process that have a name. They live as long as the process.
var named sync.Map // of *memory.Service, by name

var memoryScheme = Scheme{
	Name: "mem", Usage: "mem:// (in this process)", Secret: "there is nobody to show them to", Open: openMemory,
}

func openMemory(t *Target) (backend.Backend, func() error, error) {
	if t.Path != "" {
		return nil, nil, errors.New("takes no path: leave out what begins with the third slash")
	}
	service := memory.New(memory.Options{})
	if t.Name != "" {
		there, _ := named.LoadOrStore(t.Name, service)
		service = there.(*memory.Service)
	}
	return service, func() error { return nil }, nil
}
