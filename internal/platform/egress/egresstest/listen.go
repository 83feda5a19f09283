package egresstest

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Silent listens on a loopback address and counts the connections made to it.
type Silent struct {
	Address string
	count   atomic.Int64
}

// NewSilent starts a listener that sends nothing.
func NewSilent(t testing.TB) *Silent {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Silent{Address: listener.Addr().String()}
	open(t, listener, func(net.Conn) { s.count.Add(1) })
	return s
}

// Port returns the port of the listener, as a string.
func (s *Silent) Port() string {
	_, port, _ := net.SplitHostPort(s.Address)
	return port
}

// Connections returns how many connections were accepted so far.
func (s *Silent) Connections() int64 { return s.count.Load() }

// open serves each connection of the listener until the test ends.
func open(t testing.TB, listener net.Listener, serve func(net.Conn)) {
	var (
		running sync.WaitGroup
		mutex   sync.Mutex
		conns   = make(map[net.Conn]struct{})
	)
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mutex.Lock()
			conns[conn] = struct{}{}
			mutex.Unlock()
			running.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mutex.Lock()
		for conn := range conns {
			conn.Close()
		}
		mutex.Unlock()
		running.Wait()
	})
}

// Resolver starts a name server on loopback UDP and returns a resolver that uses the server. The
// server answers every question with the addresses that lookup returns, and a time to live of 0. If
// lookup returns no addresses, the name doesn't exist.
func Resolver(t testing.TB, lookup func(name string) []netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if reply, err := reply(buffer[:n], lookup); err == nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	})
	t.Cleanup(func() {
		conn.Close()
		running.Wait()
	})
	return NewResolver(conn.LocalAddr().String())
}

// reply answers one query. Questions for A and AAAA use the same call of lookup, so that a name can
// have both.
func reply(query []byte, lookup func(string) []netip.Addr) ([]byte, error) {
	var message dnsmessage.Message
	if err := message.Unpack(query); err != nil {
		return nil, err
	}
	message.Response, message.RecursionAvailable = true, true
	message.Additionals = nil
	question := message.Questions[0]
	name := question.Name.String()
	addrs := lookup(name[:len(name)-1])
	if len(addrs) == 0 {
		message.RCode = dnsmessage.RCodeNameError
	}
	header := dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: 0}
	for _, addr := range addrs {
		switch {
		case addr.Is4() && question.Type == dnsmessage.TypeA:
			message.Answers = append(message.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
		case addr.Is6() && question.Type == dnsmessage.TypeAAAA:
			message.Answers = append(message.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	return message.Pack()
}

// NewSilentOpen starts a listener that keeps connections open and writes nothing. It returns its address.
func NewSilentOpen(t testing.TB) string {
	return newPeer(t, "tcp", func(_ *Peer, conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }).URL[len("tcp://"):]
}
