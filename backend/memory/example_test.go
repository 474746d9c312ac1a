package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
)

// Two processes want the same seat. The one that has it is cut off: it knows that its session is over
// before the service lets the other one in.
func Example() {
	ctx := context.Background()
	service := memory.New(memory.Options{})
	alpha, beta := service.Client("alpha"), service.Client("beta")
	if err := service.Put("/seats", nil); err != nil {
		fmt.Println(err)
		return
	}

	a, err := alpha.Open(ctx, backend.OpenOptions{TTL: 50 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := beta.Open(ctx, backend.OpenOptions{TTL: 50 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	seat, err := a.Commit(ctx, nil, backend.CreateEphemeral("/seats/one", []byte("alpha")))
	if err != nil {
		fmt.Println(err)
		return
	}

	alpha.Suspend()
	gone, err := b.Await(ctx, seat[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the seat is taken:", gone[0].Exists())
	fmt.Println("alpha's session is", a.State())

	seat, err = b.Commit(ctx, nil, backend.CreateEphemeral("/seats/one", []byte("beta")))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s has it\n", seat[0].Value)
	if err := b.Close(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("left behind: %d entries\n", len(service.Entries("/seats")))
	// Output:
	// the seat is taken: false
	// alpha's session is lost
	// beta has it
	// left behind: 0 entries
}
