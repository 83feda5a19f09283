//go:build linux

package pgtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// Pooling is how a Pooler assigns server connections to its clients.
type Pooling int

const (
	PoolSessions     Pooling = iota // one server connection for each client
	PoolTransactions                // all clients share one server connection, one transaction at a time
	RefuseSettings                  // rejects unknown startup parameters, as PgBouncer does by default
)

// Pooler is a connection pooler for tests. Like PgBouncer with ignore_startup_parameters,
// it drops the startup parameters of its clients.
type Pooler struct {
	DSN string // address of the database through the pooler

	mode    atomic.Int64
	backend string // address of the database itself

	turn   sync.Mutex // held by the client whose transaction uses shared
	shared *pgconn.HijackedConn
	serial atomic.Uint32
}

// NewPooler starts a pooler in front of the database at dsn. It stops when the test ends.
func NewPooler(t testing.TB, dsn string, mode Pooling) *Pooler {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	p := &Pooler{backend: dsn}
	p.SetMode(mode)
	p.DSN = (&url.URL{Scheme: "postgres", User: url.User(config.User), Host: listener.Addr().String(), Path: config.Database, RawQuery: "sslmode=disable"}).String()
	ctx, stop := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	clients.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			clients.Go(func() { _ = p.serve(ctx, conn) }) // on an error the client sees a closed connection
		}
	})
	t.Cleanup(func() {
		stop()
		listener.Close()
		clients.Wait()
		if p.shared != nil {
			p.shared.Conn.Close()
		}
	})
	return p
}

// SetMode changes the mode for new clients.
func (p *Pooler) SetMode(mode Pooling) { p.mode.Store(int64(mode)) }

func (p *Pooler) serve(ctx context.Context, conn net.Conn) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	client := pgproto3.NewBackend(conn, conn)
	first, err := client.ReceiveStartupMessage()
	if err != nil {
		return err
	}
	startup, ok := first.(*pgproto3.StartupMessage)
	if !ok {
		return nil // a cancel request
	}
	if Pooling(p.mode.Load()) == RefuseSettings {
		for name := range startup.Parameters {
			if name != "user" && name != "database" && name != "application_name" && !strings.EqualFold(name, "timezone") {
				client.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: " + name})
				return client.Flush()
			}
		}
	}
	server, turn, err := p.server(ctx)
	if err != nil {
		return err
	}
	if turn == nil {
		defer server.Conn.Close()
		defer context.AfterFunc(ctx, func() { server.Conn.Close() })()
	}
	client.Send(&pgproto3.AuthenticationOk{})
	for name, value := range server.ParameterStatuses {
		client.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	// Like PgBouncer, the pooler assigns its own cancel keys.
	client.Send(&pgproto3.BackendKeyData{ProcessID: 1<<31 | p.serial.Add(1), SecretKey: binary.BigEndian.AppendUint32(nil, 1)})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if err := client.Flush(); err != nil {
		return err
	}
	if turn != nil {
		return forward(client, server.Frontend, turn)
	}
	var both sync.WaitGroup
	both.Go(func() { defer server.Conn.Close(); _, _ = io.Copy(server.Conn, conn) })
	both.Go(func() { defer conn.Close(); _, _ = io.Copy(conn, server.Conn) })
	both.Wait()
	return nil
}

// server returns the connection for a client. If the connection is shared, server also returns the
// lock that the client must hold during a transaction.
func (p *Pooler) server(ctx context.Context) (*pgconn.HijackedConn, *sync.Mutex, error) {
	if Pooling(p.mode.Load()) != PoolTransactions {
		server, err := connectRaw(ctx, p.backend)
		return server, nil, err
	}
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.shared == nil {
		server, err := connectRaw(ctx, p.backend)
		if err != nil {
			return nil, nil, err
		}
		p.shared = server
	}
	return p.shared, &p.turn, nil
}

func connectRaw(ctx context.Context, dsn string) (*pgconn.HijackedConn, error) {
	conn, err := pgconn.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	if err := conn.SyncConn(ctx); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn.Hijack()
}

// forward forwards each message of the client to the server, and after each request the server's
// responses to the client. It holds the lock turn during a transaction.
func forward(client *pgproto3.Backend, server *pgproto3.Frontend, turn *sync.Mutex) error {
	inTransaction := false
	defer func() {
		if inTransaction {
			turn.Unlock()
		}
	}()
	for {
		message, err := client.Receive()
		if err != nil {
			return err
		}
		if _, ends := message.(*pgproto3.Terminate); ends {
			return nil
		}
		if !inTransaction {
			turn.Lock()
		}
		inTransaction = true
		server.Send(message)
		switch message.(type) {
		case *pgproto3.Query, *pgproto3.Sync:
		default:
			continue
		}
		if err := server.Flush(); err != nil {
			return err
		}
		status, err := answer(client, server)
		if err != nil {
			return err
		}
		if inTransaction = status != 'I'; !inTransaction {
			turn.Unlock()
		}
	}
}

func answer(client *pgproto3.Backend, server *pgproto3.Frontend) (status byte, err error) {
	for {
		message, err := server.Receive()
		if err != nil {
			return 0, fmt.Errorf("read from the server: %w", err)
		}
		client.Send(message)
		if ready, ok := message.(*pgproto3.ReadyForQuery); ok {
			return ready.TxStatus, client.Flush()
		}
	}
}
