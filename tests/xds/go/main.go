// A control plane made of go-control-plane, which Envoy Gateway is made of, too.
// It listens on the address given, prints it, and obeys the lines on its standard
// input:
//
//	NODE VERSION JSON    the resources for this node, as a JSON list of RateLimitConfig
//
// For each request of a client it prints one line: accepted VERSION, refused REASON
// or subscribed NODE.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"strings"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	rules "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
)

func main() {
	listener, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	snapshots := cache.NewSnapshotCache(false, cache.IDHash{}, nil)
	tell := server.CallbackFuncs{
		StreamRequestFunc: func(_ int64, request *discovery.DiscoveryRequest) error {
			switch {
			case request.ErrorDetail != nil:
				fmt.Printf("refused %q\n", request.ErrorDetail.Message)
			case request.ResponseNonce != "":
				fmt.Println("accepted", request.VersionInfo)
			default:
				fmt.Println("subscribed", request.GetNode().GetId())
			}
			return nil
		},
	}
	serving := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(
		serving, server.NewServer(context.Background(), snapshots, tell))
	go func() { log.Fatal(serving.Serve(listener)) }()
	fmt.Println("listening", listener.Addr())

	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		words := strings.SplitN(lines.Text(), " ", 3)
		if len(words) != 3 {
			log.Fatalf("what is %q?", lines.Text())
		}
		if err := set(snapshots, words[0], words[1], words[2]); err != nil {
			log.Fatal(err)
		}
	}
}

func set(snapshots cache.SnapshotCache, node, version, text string) error {
	var parts []json.RawMessage
	if err := json.Unmarshal([]byte(text), &parts); err != nil {
		return err
	}
	var configs []types.Resource
	for _, part := range parts {
		config := &rules.RateLimitConfig{}
		if err := protojson.Unmarshal(part, config); err != nil {
			return err
		}
		configs = append(configs, config)
	}
	snapshot, err := cache.NewSnapshot(
		version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: configs})
	if err != nil {
		return err
	}
	return snapshots.SetSnapshot(context.Background(), node, snapshot)
}
