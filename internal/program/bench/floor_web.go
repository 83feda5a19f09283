package main

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/weft-automation/weft/internal/local/client"
	"github.com/weft-automation/weft/internal/secret/signature"
)

// ServeFloor serves the floor of the HTTP figures until ctx is done: /echo verifies a signature and
// responds, /stream is an event stream of a plain handler. place is ADDR/KEY, with the public key in
// hexadecimal.
func ServeFloor(ctx context.Context, place string) error {
	addr, key, _ := strings.Cut(place, "/")
	public, err := hex.DecodeString(key)
	if err != nil || len(public) != ed25519.PublicKeySize {
		return errors.New("the public key must be 32 bytes in hexadecimal")
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("serve the floor: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/echo/", echo(public))
	mux.HandleFunc("/stream", plainStream)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// echo is the minimum that a signed endpoint has to do.
func echo(public ed25519.PublicKey) http.HandlerFunc {
	return func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(io.LimitReader(q.Body, 1<<20))
		if err != nil {
			return
		}
		sig, err := signature.ParseSignature(q.Header.Get("X-Sdk-Signature"))
		message := signature.Message(q.Method, q.RequestURI, q.Header.Get("X-Sdk-Timestamp"), body)
		if err != nil || !signature.Verify(public, message, sig) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"method": q.Method, "target": q.RequestURI}) // fails only if the client has disconnected
	}
}

// plainStream sends one event, then a ping every 15 seconds.
func plainStream(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	ping := time.NewTicker(15 * time.Second)
	defer ping.Stop()
	text := "event: progress\ndata: {\"status\":\"CREATED\"}\n\n"
	for {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
		select {
		case <-ping.C:
			text = ":ping\n\n"
		case <-q.Context().Done():
			return
		}
	}
}

// floorServer is the floor's server in a separate process, with a signer that it accepts.
type floorServer struct {
	*process
	addr   string
	signer *client.Signer
}

func (r *rig) startFloor(ctx context.Context) (*floorServer, error) {
	public, pkcs8, err := signature.GenerateKey()
	if err != nil {
		return nil, err
	}
	f := &floorServer{}
	if f.signer, err = client.NewSigner("ws_floor", signature.EncodeSecret(pkcs8)); err != nil {
		return nil, err
	}
	if f.addr, err = freeAddr(); err != nil {
		return nil, err
	}
	if f.process, err = r.spawn("floor", nil, asFloor, f.addr+"/"+hex.EncodeToString(public)); err != nil {
		return nil, err
	}
	if err := f.ready(ctx, "http://"+f.addr+"/readyz"); err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

// echoes returns a load of signed echoes, on a server that the figures share.
func (r *rig) echoes(ctx context.Context, clients int) load {
	return func() (sample, error) {
		if r.floorWeb == nil {
			f, err := r.startFloor(ctx)
			if err != nil {
				return sample{}, err
			}
			r.floorWeb = f
		}
		f := r.floorWeb
		request := &call{signer: f.signer, method: "GET", target: "/echo/0199c0de-0000-7000-8000-000000000000", host: f.addr}
		return r.repeatOne(ctx, clients, request, nil)()
	}
}
