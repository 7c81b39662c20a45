// Finish times of a list of flows as SimGrid gives them, to compare with.
//
// usage: simgrid_flows FLOWS.csv RACKS HOST_BIT_PER_S UPLINK_BIT_PER_S [HOSTS] > FINISH.csv
//
// The hosts 0..H-1 are split evenly over the racks, in order. Each has a full-duplex link of its own, each rack a
// full-duplex uplink, and the core is not a limit. FLOWS.csv has the columns id,source,target,bytes,start_s sorted by
// start_s, and may have cap_bps (0 = none) after them.
//
// SimGrid's defaults model TCP: shares weighted by 1/latency and capped by a window, latency and bandwidth scaled,
// traffic of acknowledgements. The switches below turn all of that off, which leaves max-min fairness.
#include <simgrid/s4u.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

struct Flow {
  std::string id;
  int source;
  int target;
  double bytes;
  double start_s;
  double cap_bps;
};

static std::vector<Flow> read_flows(const char* path)
{
  std::ifstream file(path);
  if (not file) {
    std::cerr << "cannot read " << path << "\n";
    std::exit(1);
  }
  std::vector<Flow> flows;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string field;
    std::vector<std::string> row;
    while (std::getline(fields, field, ','))
      row.push_back(field);
    flows.push_back(Flow{row.at(0), std::stoi(row.at(1)), std::stoi(row.at(2)), std::stod(row.at(3)),
                         std::stod(row.at(4)), row.size() > 5 ? std::stod(row[5]) : 0.0});
  }
  return flows;
}

// A rack is a star of hosts around its router; the core is a star of racks.
static std::vector<sg4::Host*> build(int hosts, int racks, double host_bps, double uplink_bps)
{
  auto* core = sg4::create_star_zone("core");
  std::vector<sg4::Host*> all;
  for (int r = 0; r < racks; ++r) {
    const std::string name = "rack" + std::to_string(r);
    auto* rack             = sg4::create_star_zone(name)->set_parent(core);
    auto* router           = rack->create_router(name + "_router");
    for (int h = r * hosts / racks; h < (r + 1) * hosts / racks; ++h) {
      auto* host      = rack->create_host("h" + std::to_string(h), 1e9);
      const auto* nic = rack->create_split_duplex_link("nic" + std::to_string(h), host_bps / 8)->set_latency(0)->seal();
      rack->add_route(host->get_netpoint(), nullptr, nullptr, nullptr,
                      {{static_cast<const sg4::SplitDuplexLink*>(nic), sg4::LinkInRoute::Direction::UP}}, true);
      all.push_back(host);
    }
    rack->seal();
    const auto* up = core->create_split_duplex_link("up" + std::to_string(r), uplink_bps / 8)->set_latency(0)->seal();
    core->add_route(rack->get_netpoint(), nullptr, router, nullptr,
                    {{static_cast<const sg4::SplitDuplexLink*>(up), sg4::LinkInRoute::Direction::UP}}, true);
  }
  core->seal();
  return all;
}

// SimGrid 3.32 forgets the rate of a sendto, so a flow with a cap is a message between two actors.
static void send_capped(const Flow& flow, sg4::Host* source, sg4::Host* target, double* finish_s)
{
  auto* mailbox = sg4::Mailbox::by_name(flow.id);
  sg4::Actor::create("receiver", target, [mailbox] { mailbox->get<char>(); });
  sg4::Actor::create("sender", source, [mailbox, &flow, finish_s] {
    static char nothing;
    auto comm = mailbox->put_init(&nothing, static_cast<uint64_t>(flow.bytes));
    comm->set_rate(flow.cap_bps / 8)->wait();
    *finish_s = sg4::Engine::get_clock();
  });
}

static void drive(const std::vector<Flow>* flows, const std::vector<sg4::Host*>* hosts, std::vector<double>* finish_s)
{
  std::vector<sg4::CommPtr> comms(flows->size());
  for (std::size_t i = 0; i < flows->size(); ++i) {
    const auto& flow    = (*flows)[i];
    const double wait_s = flow.start_s - sg4::Engine::get_clock();
    if (wait_s > 0)
      sg4::this_actor::sleep_for(wait_s);
    auto* source = (*hosts)[flow.source];
    auto* target = (*hosts)[flow.target];
    if (flow.cap_bps > 0)
      send_capped(flow, source, target, &(*finish_s)[i]);
    else
      comms[i] = sg4::Comm::sendto_async(source, target, static_cast<uint64_t>(flow.bytes));
  }
  for (std::size_t i = 0; i < comms.size(); ++i) {
    if (comms[i] == nullptr)
      continue;
    comms[i]->wait();
    (*finish_s)[i] = comms[i]->get_finish_time();
    comms[i].reset();
  }
}

int main(int argc, char** argv)
{
  sg4::Engine engine(&argc, argv);
  if (argc < 5) {
    std::cerr << "usage: simgrid_flows FLOWS.csv RACKS HOST_BIT_PER_S UPLINK_BIT_PER_S [HOSTS]\n";
    return 2;
  }
  sg4::Engine::set_config("network/model:CM02");
  sg4::Engine::set_config("network/latency-factor:1");
  sg4::Engine::set_config("network/bandwidth-factor:1");
  sg4::Engine::set_config("network/TCP-gamma:0");
  sg4::Engine::set_config("network/crosstraffic:0");
  sg4::Engine::set_config("network/weight-S:0");

  const auto flows = read_flows(argv[1]);
  const int hosts_wanted = argc > 5 ? std::stoi(argv[5]) : 1024;
  const auto hosts = build(hosts_wanted, std::stoi(argv[2]), std::stod(argv[3]), std::stod(argv[4]));
  std::vector<double> finish_s(flows.size());
  sg4::Actor::create("driver", hosts[0], drive, &flows, &hosts, &finish_s);
  engine.run();

  std::printf("id,finish_s\n");
  for (std::size_t i = 0; i < flows.size(); ++i)
    std::printf("%s,%.9f\n", flows[i].id.c_str(), finish_s[i]);

  // The peak of memory, for the benchmark.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM", 0) == 0)
      std::cerr << line << "\n";
  return 0;
}
