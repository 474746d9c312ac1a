package main

import (
	"context"
	"errors"
	"fmt"
)

// A client writes to whichever node is the primary.
type client struct {
	nodes nodes
	at    int // of the voters: the one that was the primary last
	link  *link
}

func newClient(all nodes) *client { return &client{nodes: all} }

// primary is the node that has acknowledged last.
func (c *client) primary() string { return c.nodes.voters[c.at] }

func (c *client) close() {
	if c.link != nil {
		_ = c.link.conn.Close()
		c.link = nil
	}
}

// append writes a record, and tries until it is acknowledged or ctx ends. When the primary dies it may
// have been written, and not acknowledged: it is written again then, so that it may stand there twice.
func (c *client) append(ctx context.Context, data string) (position, error) {
	if err := checkData(data); err != nil {
		return position{}, err
	}
	var last error
	for tries := 0; ; tries++ {
		a, err := c.try(ctx, data)
		switch {
		case err == nil && a.Error == "":
			return a.At, nil
		case err == nil && a.Primary != "" && a.Primary != c.primary():
			err = errors.New(a.Error)
			c.turn(a.Primary)
		default:
			if err == nil {
				err = errors.New(a.Error)
			}
			c.turn("")
		}
		if ctx.Err() == nil {
			last = fmt.Errorf("%s: %w", c.primary(), err)
		}
		if !pause(ctx, tries/len(c.nodes.voters)) {
			return position{}, errors.Join(context.Cause(ctx), last)
		}
	}
}

func (c *client) try(ctx context.Context, data string) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeFor+patience)
	defer cancel()
	if c.link == nil {
		if c.link, err = connect(ctx, c.nodes.addrs[c.primary()]); err != nil {
			c.link = nil
			return a, err
		}
	}
	return c.link.ask(ctx, request{Kind: write, Data: data})
}

// turn goes to the node with this ID, or to the next one.
func (c *client) turn(id string) {
	c.close()
	for i, voter := range c.nodes.voters {
		if voter == id {
			c.at = i
			return
		}
	}
	c.at = (c.at + 1) % len(c.nodes.voters)
}

// readLog reads all that a node has, acknowledged or not.
func readLog(ctx context.Context, addr string) ([]record, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*patience)
	defer cancel()
	l, err := connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer l.conn.Close()
	var all []record
	for {
		a, err := l.ask(ctx, request{Kind: read, After: len(all)})
		switch {
		case err != nil:
			return all, err
		case a.Error != "":
			return all, errors.New(a.Error)
		case len(a.Records) == 0:
			return all, nil
		case a.At.Index != len(all):
			return nil, errors.New("the log has changed meanwhile: try again")
		}
		all = append(all, a.Records...)
	}
}
