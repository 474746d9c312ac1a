package dial

import (
	"sync"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
)

// named are the services of this process that have a name. They live as long as the process.
var named sync.Map // of *memory.Service, by name

func openMemory(t *target, _ options) (backend.Backend, func() error, error) {
	service := memory.New(memory.Options{})
	if t.name != "" {
		there, _ := named.LoadOrStore(t.name, service)
		service = there.(*memory.Service)
	}
	return service, func() error { return nil }, nil
}
