//go:build linux

package devchain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	blockTime = 500 * time.Millisecond
	onTop     = 60 // blocks on top of the last block with a transaction, as confirmations
)

// mine creates a block while transactions are pending, and then some more blocks as confirmations.
// An unused chain does not grow.
func (c *Chain) mine(ctx context.Context) {
	tick := time.NewTicker(blockTime)
	defer tick.Stop()
	for left, failing := 0, false; ; {
		select {
		case <-ctx.Done():
			return
		case <-c.proc.Done():
			c.log.Error("the chain's node exited unexpectedly; restart weft dev to run a chain", "reason", fmt.Sprint(c.proc.Err()), "log", c.home.log())
			return
		case <-tick.C:
		}
		waiting, err := c.waiting(ctx)
		if waiting {
			left = onTop + 1
		}
		if err == nil && left > 0 {
			if err = c.ask(ctx, nil, "evm_mine", "[]"); err == nil {
				left--
			}
		}
		if err != nil && !failing && ctx.Err() == nil {
			c.log.Warn("the chain could not mine a block", "error", err)
		}
		failing = err != nil
	}
}

// waiting reports whether a transaction waits for a block.
func (c *Chain) waiting(ctx context.Context) (bool, error) {
	var pool struct{ Pending string }
	if err := c.ask(ctx, &pool, "txpool_status", "[]"); err != nil {
		return false, err
	}
	pending, err := strconv.ParseUint(strings.TrimPrefix(pool.Pending, "0x"), 16, 64)
	if err != nil {
		return false, fmt.Errorf("txpool_status: %w", err)
	}
	return pending > 0, nil
}

// node connects to loopback, so it ignores the proxies of the environment.
var node = http.Client{Transport: &http.Transport{Proxy: nil}, Timeout: 10 * time.Second}

// ask makes one JSON-RPC call.
func (c *Chain) ask(ctx context.Context, out any, method, params string) error {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL(), strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := node.Do(request)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer answer.Body.Close()
	var result struct{ Result, Error json.RawMessage }
	if err := json.NewDecoder(answer.Body).Decode(&result); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if result.Error != nil {
		return errors.New(method + ": " + string(result.Error))
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(result.Result, out); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}
