// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"sync"
)

// maxConnections bounds what all clients together hold open: a thousand nodes'
// collectors come one after the other, and each needs a moment.
const maxConnections = 512

// bounded accepts a connection only when fewer than its places are taken.
// Others wait in the kernel's queue, where they cost this process nothing.
type bounded struct {
	net.Listener
	places chan struct{}
	done   chan struct{}
	once   sync.Once
}

func newBounded(ln net.Listener, n int) *bounded {
	return &bounded{Listener: ln, places: make(chan struct{}, n), done: make(chan struct{})}
}

// Accept waits for a place and a connection.
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.places <- struct{}{}:
	case <-b.done:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.places
		return nil, err
	}
	return &place{Conn: c, free: sync.OnceFunc(func() { <-b.places })}, nil
}

// Close ends an Accept that waits for a place, too.
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.done) })
	return b.Listener.Close()
}

// place is a connection that has one.
type place struct {
	net.Conn
	free func()
}

// Close gives the place back.
func (p *place) Close() error {
	p.free()
	return p.Conn.Close()
}
