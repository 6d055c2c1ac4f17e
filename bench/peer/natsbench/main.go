// JetStream at full speed with the Go client: produces messages, or consumes a stream from its start; prints one JSON line.
//
// usage: natsbench URL produce|consume STREAM COUNT SIZE
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const pendingMax = 4000

func main() {
	if len(os.Args) != 6 {
		log.Fatal("usage: natsbench URL produce|consume STREAM COUNT SIZE")
	}
	url, command, name := os.Args[1], os.Args[2], os.Args[3]
	count, size := number(os.Args[4]), number(os.Args[5])
	connection, err := nats.Connect(url)
	check(err)
	defer connection.Close()
	stream, err := jetstream.New(connection, jetstream.WithPublishAsyncMaxPending(pendingMax))
	check(err)
	var seconds float64
	switch command {
	case "produce":
		seconds = produce(stream, name, count, size)
	case "consume":
		seconds = consume(stream, name, count)
	default:
		log.Fatalf("unknown command %s", command)
	}
	fmt.Printf("{\"messages\": %d, \"rate_per_s\": %.0f}\n", count, float64(count)/seconds)
}

func produce(stream jetstream.JetStream, name string, count int, size int) float64 {
	payload := make([]byte, size)
	began := time.Now()
	for sent := 0; sent < count; sent++ {
		_, err := stream.PublishAsync(name, payload)
		check(err)
	}
	<-stream.PublishAsyncComplete()
	return time.Since(began).Seconds()
}

func consume(stream jetstream.JetStream, name string, count int) float64 {
	context := context.Background()
	began := time.Now()
	consumer, err := stream.OrderedConsumer(context, name, jetstream.OrderedConsumerConfig{})
	check(err)
	messages, err := consumer.Messages(jetstream.PullMaxMessages(10000))
	check(err)
	for got := 0; got < count; got++ {
		_, err := messages.Next()
		check(err)
	}
	return time.Since(began).Seconds()
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
