# services.sh: makes the databases and starts the services, inside the overlay; touches /os/ready when they answer.
# These settings suit one small machine: SQLite in WAL mode, one worker each, the catalogue before Nova, and Neutron's schema
# made at once. A mechanism driver of six lines binds ports, since no packets are carried.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
echo data > /tmp/img
set -u
wal(){ /usr/bin/python3 -c "import sqlite3,sys;print(sys.argv[1:],sqlite3.connect(sys.argv[1]).execute('pragma journal_mode=wal').fetchone())" $1; }
cd /os; rm -rf s; mkdir -p s/{etc,lib,log,glance,inst}; O=/os/s; H=127.0.0.1
ip link set lo up
export OS_DEBUG= PYTHONWARNINGS=ignore
t0=$(date +%s); T(){ echo "[$(( $(date +%s)-t0 )) s] $*"; }
export RABBITMQ_NODENAME=rabbit@localhost RABBITMQ_MNESIA_BASE=$O/lib/mnesia RABBITMQ_LOG_BASE=$O/log RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 ERL_EPMD_ADDRESS=127.0.0.1 RABBITMQ_PID_FILE=$O/lib/rabbit.pid
grep -q localhost /etc/hosts || echo "127.0.0.1 localhost" >> /etc/hosts
chown -R rabbitmq $O/lib $O/log; chmod 777 $O $O/lib $O/log
rabbitmq-server > $O/log/rabbit.out 2>&1 &
cat > $O/etc/keystone.conf <<C
[database]
connection = sqlite:///$O/lib/keystone.sqlite?timeout=60
[token]
provider = fernet
[fernet_tokens]
key_repository = $O/etc/fernet
[credential]
key_repository = $O/etc/cred
[cache]
enabled = false
C
export OS_KEYSTONE_CONFIG_FILES=keystone.conf OS_KEYSTONE_CONFIG_DIR=$O/etc
mkdir -p $O/etc/fernet $O/etc/cred; chmod 700 $O/etc/fernet $O/etc/cred
K="keystone-manage --config-file $O/etc/keystone.conf"
$K db_sync 2>&1 | tail -2; T keystone db
$K fernet_setup --keystone-user root --keystone-group root 2>&1 | tail -1
$K bootstrap --bootstrap-password pw --bootstrap-admin-url http://$H:5000/v3 --bootstrap-public-url http://$H:5000/v3 --bootstrap-internal-url http://$H:5000/v3 --bootstrap-region-id R 2>&1 | tail -1; T bootstrap; wal $O/lib/keystone.sqlite
keystone-wsgi-public --port 5000 -- --config-file $O/etc/keystone.conf > $O/log/keystone.log 2>&1 &
AUTH="auth_type = password
auth_url = http://$H:5000/v3
www_authenticate_uri = http://$H:5000/v3
username = admin
password = pw
project_name = admin
user_domain_id = default
project_domain_id = default
region_name = R"
cat > $O/etc/placement.conf <<C
[api]
auth_strategy = keystone
[keystone_authtoken]
$AUTH
[placement_database]
connection = sqlite:///$O/lib/placement.sqlite?timeout=60
[oslo_policy]
enforce_scope = false
C
export OS_AUTH_URL=http://$H:5000/v3 OS_USERNAME=admin OS_PASSWORD=pw OS_PROJECT_NAME=admin OS_USER_DOMAIN_ID=default OS_PROJECT_DOMAIN_ID=default OS_IDENTITY_API_VERSION=3 OS_REGION_NAME=R
/usr/bin/python3 /os/catalogue.py; T catalog
placement-manage --config-file $O/etc/placement.conf db sync 2>&1 | tail -1; T placement db; wal $O/lib/placement.sqlite
OS_PLACEMENT_CONFIG_DIR=$O/etc placement-api --port 8778 > $O/log/placement.log 2>&1 &
cat > $O/etc/nova.conf <<C
[DEFAULT]
state_path = $O/lib
log_dir =
transport_url = rabbit://guest:guest@$H:5672/
enabled_apis = osapi_compute
osapi_compute_workers = 1
osapi_compute_listen = $H
compute_driver = fake.MediumFakeDriver
instances_path = $O/inst
my_ip = $H
enable_network_quota = false
[api]
auth_strategy = keystone
[database]
connection = sqlite:///$O/lib/nova_cell1.sqlite?timeout=60
[api_database]
connection = sqlite:///$O/lib/nova_api.sqlite?timeout=60
[keystone_authtoken]
$AUTH
[placement]
$AUTH
[service_user]
send_service_user_token = false
[neutron]
$AUTH
[glance]
api_servers = http://$H:9292
$AUTH
[conductor]
workers = 1
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 5
[oslo_policy]
enforce_scope = false
[oslo_concurrency]
lock_path = $O/lib
[filter_scheduler]
enabled_filters = ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,SameHostFilter,DifferentHostFilter
[workarounds]
disable_rootwrap = true
C
N="nova-manage --config-file $O/etc/nova.conf"
$N api_db sync 2>&1 | tail -1; T nova api_db
$N cell_v2 map_cell0 --database_connection sqlite:///$O/lib/nova_cell0.sqlite?timeout=60 2>&1 | tail -1
$N cell_v2 create_cell --name cell1 2>&1 | tail -1
$N db sync 2>&1 | tail -2; T nova db; for d in nova_api nova_cell0 nova_cell1; do wal $O/lib/$d.sqlite; done
cat > $O/etc/glance.conf <<C
[DEFAULT]
bind_host = $H
workers = 0
enabled_backends = f:file
transport_url = fake://
[glance_store]
default_backend = f
[f]
filesystem_store_datadir = $O/glance
[os_glance_staging_store]
filesystem_store_datadir = $O/glance/staging
[os_glance_tasks_store]
filesystem_store_datadir = $O/glance/tasks
[database]
connection = sqlite:///$O/lib/glance.sqlite?timeout=60
[paste_deploy]
flavor = keystone
config_file = /etc/glance/glance-api-paste.ini
[keystone_authtoken]
$AUTH
[oslo_policy]
enforce_scope = false
C
glance-manage --config-file $O/etc/glance.conf db_sync 2>&1 | tail -1; T glance db; wal $O/lib/glance.sqlite
glance-api --config-file $O/etc/glance.conf > $O/log/glance.log 2>&1 &
for x in $(seq 60); do rabbitmqctl -q status >/dev/null 2>&1 && break; sleep 1; done; T rabbit
for svc in conductor scheduler; do nova-$svc --config-file $O/etc/nova.conf > $O/log/nova-$svc.log 2>&1 & done
nova-api --config-file $O/etc/nova.conf > $O/log/nova-api.log 2>&1 &
for i in 1 2 3; do printf "[DEFAULT]\nhost = host$i\n" > $O/etc/h$i.conf; nova-compute --config-file $O/etc/nova.conf --config-file $O/etc/h$i.conf > $O/log/nova-compute$i.log 2>&1 & done
o(){ openstack "$@" 2>&1 | tail -${L:-14}; }
mkdir -p $O/py/labbind-0.1.dist-info; printf 'Metadata-Version: 2.1\nName: labbind\nVersion: 0.1\n' > $O/py/labbind-0.1.dist-info/METADATA
printf '[neutron.ml2.mechanism_drivers]\nlabbind = labbind:LabBind\n' > $O/py/labbind-0.1.dist-info/entry_points.txt
cat > $O/py/labbind.py <<C
from neutron_lib.plugins.ml2 import api
class LabBind(api.MechanismDriver):
    def initialize(self): pass
    def bind_port(self, context):
        for s in context.segments_to_bind:
            context.set_binding(s[api.ID], "ovs", {"port_filter": False}, status="ACTIVE"); return
C
cat > $O/etc/neutron.conf <<C
[DEFAULT]
core_plugin = ml2
service_plugins =
auth_strategy = keystone
transport_url = fake://
bind_host = $H
api_workers = 0
rpc_workers = 0
rpc_state_report_workers = 0
state_path = $O/lib
api_paste_config = /etc/neutron/api-paste.ini
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
global_physnet_mtu = 1500
[database]
connection = sqlite:///$O/lib/neutron.sqlite?timeout=60
[keystone_authtoken]
$AUTH
[ml2]
type_drivers = local
tenant_network_types = local
mechanism_drivers = labbind
[oslo_policy]
enforce_scope = false
[oslo_concurrency]
lock_path = $O/lib
C
export PYTHONPATH=$O/py
/usr/bin/python3 -c "
from neutron.db.migration.models import head; import sqlalchemy as sa
m=head.get_metadata(); e=sa.create_engine('sqlite:///$O/lib/neutron.sqlite'); m.create_all(e); print(len(m.tables),'tables')" 2>&1 | tail -1; neutron-db-manage --config-file $O/etc/neutron.conf stamp heads 2>&1 | tail -1
wal $O/lib/neutron.sqlite; T neutron db
neutron-server --config-file $O/etc/neutron.conf > $O/log/neutron.log 2>&1 &
/usr/bin/python3 -W ignore /os/setup.py; T ready
touch /os/ready
wait
