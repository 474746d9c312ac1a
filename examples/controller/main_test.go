package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
	"github.com/elector-go/elector/internal/wait"
)

// TestDemo holds that each fault has its effect, on fake time. Within a scene the brokers talk in any order.
func TestDemo(t *testing.T) {
	var out wait.Log
	synctest.Test(t, func(t *testing.T) {
		demo(t.Context(), func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) })
	})
	t.Log(out.String())
	rest := out.String()
	for _, scene := range []struct{ begins, shows, too string }{
		{"broker 1 starts", "broker 1: IS THE CONTROLLER, epoch 1", "--- partition 1: OFFLINE, ISR [2 3]"},
		{"broker 3 starts", "broker 2: LEADS partition 1: leader 2, ISR [2 3], epoch 1", "--- partition 0: leader 1, ISR [1 2], epoch 1"},
		{"broker 2 DIES", "broker 3: LEADS partition 1", "--- partition 0: leader 1, ISR [1], epoch 2"},
		{"broker 2 starts again", "broker 2: registered", "--- partition 1: leader 3, ISR [2 3], epoch 3"},
		{"broker 2 starts again, before", "broker 2: starts over: not registered", "--- partition 1: leader 3, ISR [2 3], epoch 5"},
		{"an operator deletes the reg", "broker 3: starts over: the registration is gone", "broker 3: registered"},
		{"broker 1 hears of it", "broker 2: LEADS partition 1: leader 2", "--- partition 1: leader 2, ISR [2 3], epoch 7"},
		{"an operator deletes the con", "condition does not hold", "--- partition 1: leader 2, ISR [2 3], epoch 7 of controller 1"},
		{"broker 3 starts again", "broker 3: registered", "--- partition 1: leader 2, ISR [2 3], epoch 9 of controller 2"},
		{"broker 2, the controller, IS CUT", "broker 2: leads partition 1 no more", "--- partition 1: leader 3, ISR [3], epoch 10 of controller 3"},
		{"broker 2 is back", "broker 2: registered", "--- partition 1: leader 3, ISR [2 3], epoch 11 of controller 3"},
		{"broker 1 DIES", "broker 2: LEADS partition 0: leader 2, ISR [2]", "--- partition 0: leader 2, ISR [2]"},
		{"broker 1 starts again", "broker 1: registered", "--- partition 0: OFFLINE, ISR [2]"},
		{"broker 2 starts again", "broker 2: LEADS partition 0: leader 2, ISR [1 2]", "--- partition 0: leader 2, ISR [1 2]"},
		{"the service starts again", "IS THE CONTROLLER", "--- partition 0: leader "},
		{"broker 1 DIES", "is the controller no more", `/demo/partitions holds "?"`},
	} {
		_, after, found := strings.Cut(rest, "=== "+scene.begins)
		require.True(t, found, "%q does not come next", scene.begins)
		now, _, _ := strings.Cut(after, "===")
		assert.Contains(t, now, scene.shows, scene.begins)
		assert.Contains(t, now, scene.too, scene.begins)
		rest = after
	}
}

// TestOlderEpochs holds that a broker ignores decisions of an earlier controller, and earlier ones.
func TestOlderEpochs(t *testing.T) {
	b := newBroker(2, memory.New(memory.Options{}), false, t.Logf)
	b.learn(0, partition{Leader: 2, LeaderEpoch: 5, ControllerEpoch: 3})
	require.True(t, b.leads[0])
	b.learn(0, partition{Leader: 1, LeaderEpoch: 6, ControllerEpoch: 2})
	assert.True(t, b.leads[0], "the controller of epoch 2 is over")
	b.learn(0, partition{Leader: 1, LeaderEpoch: 4, ControllerEpoch: 3})
	assert.True(t, b.leads[0], "leader epoch 4 is over")
	b.stepDown()
	b.learn(0, partition{Leader: 2, LeaderEpoch: 4, ControllerEpoch: 3})
	assert.False(t, b.leads[0], "leader epoch 4 is over in the next session, too")
}

func TestBadFlags(t *testing.T) {
	for args, says := range map[string]string{
		"more":                                `unexpected argument "more"`,
		"-broker 1":                           "-backend: give a server",
		"-broker 1 -backend mem://":           "-backend: give a server",
		"-broker 4 -backend zk://127.0.0.1:1": "-broker 4: the brokers of the cluster are 1, 2 and 3",
		"-broker 1 -backend nonsense":         "not a URL",
	} {
		assert.ErrorContains(t, run(t.Context(), strings.Fields(args), t.Logf), says, args)
	}
}

// TestMain turns the processes of TestProcesses into this program: they are this test, executed again.
func TestMain(m *testing.M) {
	if os.Getenv("BE_A_BROKER") != "" {
		main()
	} else {
		os.Exit(m.Run())
	}
}

// TestProcesses kills and freezes brokers that are processes on real servers.
func TestProcesses(t *testing.T) {
	servertest.Long(t, "processes that are killed and frozen")
	services.OnEach(t, func(t *testing.T, s services.Service) {
		t.Parallel()
		url := s.URL(s.ForTest(t).Addr(), 10*time.Second)
		brokers, heard := make(map[int]*process.Process), make(map[int]int)
		says := func(id int, text string) { // after what it was heard to say before
			t.Helper()
			wait.For(t, fmt.Sprintf("broker %d says %q", id, text), func() bool {
				before, _, found := strings.Cut(brokers[id].LogTail(1 << 20)[heard[id]:], text)
				if found {
					heard[id] += len(before + text)
				}
				return found
			})
		}
		for id := 1; id <= 3; id++ {
			brokers[id] = process.New(process.Spec{
				Name: fmt.Sprint("broker ", id), Path: os.Args[0], Args: []string{"-backend", url, "-broker", fmt.Sprint(id)},
				Env: []string{"BE_A_BROKER=1", "GORACE=halt_on_error=1"}, LogPath: filepath.Join(t.TempDir(), "out"), Log: t.Output(),
			})
			t.Cleanup(func() { _ = brokers[id].Kill() })
			require.NoError(t, brokers[id].Start())
			says(id, "registered")
			says(1, "decides partition")
		}
		says(2, "LEADS partition 1: leader 2, ISR [2 3]")
		require.NoError(t, brokers[2].Kill())
		says(3, "LEADS partition 1: leader 3, ISR [3]")
		require.NoError(t, brokers[2].Start())
		says(3, "LEADS partition 1: leader 3, ISR [2 3]")

		require.NoError(t, brokers[1].Pause()) // the controller, until there is another one
		says(2, "LEADS partition 0: leader 2, ISR [2]")
		require.NoError(t, brokers[1].Resume())
		says(1, "late write")
		says(1, "condition does not hold")
		says(2, "LEADS partition 0: leader 2, ISR [1 2]")
		require.NoError(t, brokers[2].Kill())
		require.NoError(t, brokers[3].Kill()) // one of the two is the controller
		says(1, "IS THE CONTROLLER")
		says(1, "LEADS partition 0: leader 1, ISR [1]")
		require.NoError(t, brokers[1].Stop(wait.Patience))
		assert.ErrorContains(t, brokers[1].ExitError(), "exit status 0")
	})
}
