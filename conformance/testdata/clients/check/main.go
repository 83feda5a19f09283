// Judges callbacks that come by lines, or reads a stream.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	weft "github.com/weft-automation/weft/conformance/clients/go"
)

func main() {
	if os.Args[1] == "callbacks" {
		callbacks()
		return
	}
	idle, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	stream := weft.Stream{Client: &http.Client{}, Idle: time.Duration(idle) * time.Millisecond}
	type event struct {
		Status string
		N      any
	}
	for event, err := range weft.Events[event](context.Background(), stream, os.Args[2]+os.Args[3], "") {
		var refused *weft.StreamRefused
		if errors.As(err, &refused) {
			fmt.Println("refused", refused.Status)
		} else if err != nil {
			log.Fatal(err)
		} else {
			fmt.Println(event.Status, event.N)
		}
	}
}

func callbacks() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fields := strings.Split(lines.Text(), "\t")
		seconds, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			log.Fatal(err)
		}
		header := http.Header{}
		for i := 3; i < len(fields); i += 2 {
			header.Set(fields[i], fields[i+1])
		}
		switch err := weft.VerifyCallback(string(decoded(fields[0])), header, decoded(fields[1]), time.Unix(seconds, 0)); {
		case err == nil:
			fmt.Println("genuine")
		case errors.Is(err, weft.ErrForged):
			fmt.Println("forged")
		}
	}
}

func decoded(text string) []byte {
	bytes, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		log.Fatal(err)
	}
	return bytes
}
