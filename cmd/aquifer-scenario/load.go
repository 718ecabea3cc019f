package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// load sends jobs at a steady rate, whether the nodes answer or not, and each again with the same key until
// it is acknowledged.
type load struct {
	rate     float64 // jobs/s
	users    int
	target   string // base URLs
	receiver string
	balancer *balancer
	http     *http.Client
	ledger   *ledger
}

// What a client does that is not answered with 2xx.
const (
	callTimeout  = 15 * time.Second // an owner that hangs is given up by the node that was called after 10
	pauseAtFirst = 100 * time.Millisecond
	pauseAtMost  = 2 * time.Second // doubled with each call that failed, or what the node asks for
)

// busyOneIn is how many jobs there are to one at which the target is busy at first. It meets all users in turn.
const busyOneIn = 7

// run sends until enough is closed, and goes on repeating what is not acknowledged until ctx ends.
func (l *load) run(ctx context.Context, enough <-chan struct{}) {
	var clients sync.WaitGroup
	defer clients.Wait()
	begin := time.Now()
	for seq := 0; ; seq++ {
		due := begin.Add(time.Duration(float64(seq) / l.rate * float64(time.Second)))
		select {
		case <-ctx.Done():
			return
		case <-enough:
			return
		case <-time.After(time.Until(due)):
		}
		key := fmt.Sprintf("job-%06d", seq)
		if seq%busyOneIn == 0 {
			key += busySuffix
		}
		user := "user-" + strconv.Itoa(seq%l.users)
		l.ledger.send(key, user, due, time.Now())
		clients.Go(func() { l.insist(ctx, key, user) })
	}
}

// insist sends a job until it is acknowledged or ctx ends.
func (l *load) insist(ctx context.Context, key, user string) {
	body, err := json.Marshal(map[string]any{
		"user_id": user, "idempotent_key": key, "method": http.MethodPost, "body": "work",
		"url": l.target + "/?key=" + key, "webhook_url": l.receiver + "/?key=" + key, "max_retries": 10,
	})
	if err != nil {
		l.ledger.fail(err.Error())
		return
	}
	for wait := pauseAtFirst; ctx.Err() == nil; wait = min(2*wait, pauseAtMost) {
		asked, done := l.call(ctx, l.balancer.pick(), key, body)
		if done {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(max(wait, asked), pauseAtMost)):
		}
	}
}

// call sends a job once, and returns how long the node asks to wait if it does not take it.
func (l *load) call(ctx context.Context, at entrance, key string, body []byte) (asked time.Duration, done bool) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.url+"/jobs", bytes.NewReader(body))
	if err != nil {
		l.ledger.fail(err.Error())
		return 0, false
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := l.http.Do(req)
	if err != nil {
		l.ledger.fail(unanswered(err))
		return 0, false
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	var answer struct {
		Job   string `json:"job_id"`
		Error string `json:"error"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	switch {
	case resp.StatusCode/100 != 2:
		l.ledger.fail(fmt.Sprintf("%d %s", resp.StatusCode, answer.Error))
	case err != nil || answer.Job == "":
		l.ledger.fail("broken answer")
	default:
		l.ledger.ack(key, answer.Job, place(resp.Header.Get("X-Aquifer-Cluster-Owner")), time.Now())
		return 0, true
	}
	s, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // 0 if it asks for nothing
	return time.Duration(s) * time.Second, false
}

func unanswered(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return "connection"
}
