package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/elector-go/elector/backend"
)

// Bounds of what may be asked for, so that a slip of the finger is an error.
const maxPartitions, maxReplicas = 1000, 100

var topicName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$`)

// parseTopic reads the value of -create.
func parseTopic(s string) (name string, t topic, err error) {
	parts := strings.Split(s, ":")
	if len(parts) == 3 {
		name = parts[0]
		var errs [2]error
		t.Partitions, errs[0] = strconv.Atoi(parts[1])
		t.Replicas, errs[1] = strconv.Atoi(parts[2])
		err = errors.Join(errs[:]...)
	} else {
		err = errors.New("there must be three parts")
	}
	if err == nil {
		err = t.check(name)
	}
	if err != nil {
		err = fmt.Errorf("-create %q: %w; give name:partitions:replicas, such as orders:3:2", s, err)
	}
	return name, t, err
}

// check says what is wrong with a topic of this name.
func (t topic) check(name string) error {
	switch {
	case !topicName.MatchString(name):
		return errors.New("the name must be 1 to 100 of A-Z a-z 0-9 . _ - and not begin with a dot")
	case t.Partitions < 1 || t.Partitions > maxPartitions:
		return fmt.Errorf("there must be 1 to %d partitions", maxPartitions)
	case t.Replicas < 1 || t.Replicas > maxReplicas:
		return fmt.Errorf("there must be 1 to %d replicas", maxReplicas)
	}
	return nil
}

// createTopic asks for a topic. It needs no controller: the request is a persistent
// entry, which the controller of now, or the next one, finds. It blocks until the
// service has it. Asking again for the same is no error.
func createTopic(ctx context.Context, s *backend.Session, l layout, name string, t topic) error {
	for {
		e, err := get(ctx, s, l.topics())
		if err != nil {
			return err
		}
		all, ok := decodeTopics(e)
		if !ok {
			return fmt.Errorf("%s holds %.80q, which is not only topics: is the path somebody else's?", e.Key, e.Value)
		}
		if have, exists := all[name]; exists {
			if have != t {
				return fmt.Errorf("topic %s exists, and is another: %s", name, encode(have))
			}
			return nil
		}
		all[name] = t
		_, err = s.Commit(ctx, nil, backend.CompareAndSet(e.Key, encode(all), e.Version))
		// Another client was faster, or the reply was lost: looking again settles both.
		if ctx.Err() == nil && (errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrIndeterminate)) {
			continue
		}
		return err
	}
}
