/* The tables of import_name.c: modules whose distribution has another name, and modules of older Pythons.
 *
 * Invariant, which unit/import-name checks: both are in strcmp()'s order, without a name twice; of the first no row is
 * one that the module's own name would give, unless the name has a dot. */
#include "import_name.h"

/* clang-format off */
/* What is installed to import it. Of several the one that needs the least: no display, no compiler. */
const struct kr_import_row kr_import_rows[] = {
    {"Bio", "biopython"}, {"Crypto", "pycryptodome"}, {"Cryptodome", "pycryptodomex"}, {"Evtx", "python-evtx"},
    {"MySQLdb", "mysqlclient"}, {"OpenGL", "PyOpenGL"}, {"OpenSSL", "pyOpenSSL"}, {"PIL", "pillow"},
    {"RPi", "RPi.GPIO"}, {"Xlib", "python-xlib"}, {"absl", "absl-py"}, {"airflow", "apache-airflow"},
    {"allauth", "django-allauth"}, {"alpaca", "alpaca-py"}, {"antlr4", "antlr4-python3-runtime"},
    {"apiclient", "google-api-python-client"}, {"appium", "Appium-Python-Client"}, {"arango", "python-arango"},
    {"argon2", "argon2-cffi"}, {"attr", "attrs"}, {"autogen", "pyautogen"}, {"autosklearn", "auto-sklearn"},
    {"azure.cognitiveservices.speech", "azure-cognitiveservices-speech"}, {"azure.core", "azure-core"},
    {"azure.cosmos", "azure-cosmos"}, {"azure.identity", "azure-identity"},
    {"azure.storage.blob", "azure-storage-blob"}, {"barcode", "python-barcode"}, {"bidi", "python-bidi"},
    {"binance", "python-binance"}, {"bluetooth", "PyBluez"}, {"board", "Adafruit-Blinka"}, {"bs4", "beautifulsoup4"},
    {"bson", "pymongo"}, {"busio", "Adafruit-Blinka"}, {"cairo", "pycairo"}, {"can", "python-can"},
    {"cassandra", "cassandra-driver"}, {"chess", "python-chess"}, {"coinbase", "coinbase-advanced-py"},
    {"community", "python-louvain"}, {"corsheaders", "django-cors-headers"}, {"cpuinfo", "py-cpuinfo"},
    {"crispy_forms", "django-crispy-forms"}, {"crontab", "python-crontab"}, {"cv2", "opencv-python-headless"},
    {"dateutil", "python-dateutil"}, {"dbus", "dbus-python"}, {"debug_toolbar", "django-debug-toolbar"},
    {"decouple", "python-decouple"}, {"discord", "discord.py"}, {"distutils", "setuptools"},
    {"django_filters", "django-filter"}, {"dns", "dnspython"}, {"docx", "python-docx"}, {"dot_parser", "pydot"},
    {"dotenv", "python-dotenv"}, {"ee", "earthengine-api"}, {"elftools", "pyelftools"}, {"enchant", "pyenchant"},
    {"engineio", "python-engineio"}, {"environ", "django-environ"}, {"escpos", "python-escpos"},
    {"etcd", "python-etcd"}, {"factory", "factory-boy"}, {"faiss", "faiss-cpu"}, {"ffmpeg", "ffmpeg-python"},
    {"fitz", "PyMuPDF"}, {"fpdf", "fpdf2"}, {"gflags", "python-gflags"}, {"gi", "PyGObject"}, {"git", "GitPython"},
    {"github", "PyGithub"}, {"gitlab", "python-gitlab"}, {"google.api_core", "google-api-core"},
    {"google.auth", "google-auth"}, {"google.cloud.aiplatform", "google-cloud-aiplatform"},
    {"google.cloud.bigquery", "google-cloud-bigquery"}, {"google.cloud.firestore", "google-cloud-firestore"},
    {"google.cloud.pubsub_v1", "google-cloud-pubsub"}, {"google.cloud.speech", "google-cloud-speech"},
    {"google.cloud.storage", "google-cloud-storage"}, {"google.cloud.translate", "google-cloud-translate"},
    {"google.cloud.vision", "google-cloud-vision"}, {"google.genai", "google-genai"},
    {"google.generativeai", "google-generativeai"}, {"google.oauth2", "google-auth"}, {"google.protobuf", "protobuf"},
    {"googleapiclient", "google-api-python-client"}, {"graphql", "graphql-core"}, {"grpc", "grpcio"},
    {"grpc_health", "grpcio-health-checking"}, {"grpc_reflection", "grpcio-reflection"},
    {"grpc_status", "grpcio-status"}, {"grpc_tools", "grpcio-tools"}, {"haystack", "haystack-ai"},
    {"hydra", "hydra-core"}, {"ibis", "ibis-framework"}, {"imblearn", "imbalanced-learn"}, {"imdb", "cinemagoer"},
    {"impala", "impyla"}, {"jenkins", "python-jenkins"}, {"jks", "pyjks"}, {"jnius", "pyjnius"},
    {"jose", "python-jose"}, {"jpype", "JPype1"}, {"jsonrpclib", "jsonrpclib-pelix"}, {"jwt", "PyJWT"},
    {"kafka", "kafka-python"}, {"ldap", "python-ldap"}, {"lightning_fabric", "lightning"},
    {"llama_cpp", "llama-cpp-python"}, {"magic", "python-magic"}, {"mailparser", "mail-parser"},
    {"markdown_it", "markdown-it-py"}, {"memcache", "python-memcached"}, {"mnist", "python-mnist"},
    {"moviepy.editor", "moviepy"}, {"mpl_toolkits", "matplotlib"}, {"msgraph", "msgraph-sdk"},
    {"multipart", "python-multipart"}, {"mysql", "mysql-connector-python"},
    {"mysql.connector", "mysql-connector-python"}, {"nacl", "PyNaCl"}, {"newspaper", "newspaper3k"},
    {"nmap", "python-nmap"}, {"odf", "odfpy"}, {"openbabel", "openbabel-wheel"}, {"opensearchpy", "opensearch-py"},
    {"opentelemetry", "opentelemetry-api"}, {"opentelemetry.sdk", "opentelemetry-sdk"}, {"osgeo", "GDAL"},
    {"ot", "POT"}, {"paddle", "paddlepaddle"}, {"paho", "paho-mqtt"}, {"past", "future"}, {"pcap", "pypcap"},
    {"pcapy", "pcapy-ng"}, {"pdfminer", "pdfminer.six"}, {"pkcs11", "python-pkcs11"}, {"pkg_resources", "setuptools"},
    {"pl_bolts", "lightning-bolts"}, {"playhouse", "peewee"}, {"pptx", "python-pptx"},
    {"psycopg2", "psycopg2-binary"}, {"pwn", "pwntools"}, {"pylab", "matplotlib"}, {"pymol", "pymol-open-source"},
    {"pynvml", "nvidia-ml-py"}, {"pyro", "pyro-ppl"}, {"pythonjsonlogger", "python-json-logger"},
    {"pywt", "PyWavelets"}, {"pyximport", "Cython"}, {"rapidjson", "python-rapidjson"},
    {"readability", "readability-lxml"}, {"rest_framework", "djangorestframework"},
    {"rest_framework_simplejwt", "djangorestframework-simplejwt"}, {"ruamel", "ruamel.yaml"},
    {"ruamel.yaml", "ruamel.yaml"}, {"saml2", "pysaml2"}, {"seleniumwire", "selenium-wire"}, {"serial", "pyserial"},
    {"shapefile", "pyshp"}, {"skbio", "scikit-bio"}, {"skdim", "scikit-dimension"}, {"skfuzzy", "scikit-fuzzy"},
    {"skimage", "scikit-image"}, {"sklearn", "scikit-learn"}, {"sklearnex", "scikit-learn-intelex"},
    {"skmisc", "scikit-misc"}, {"skmultiflow", "scikit-multiflow"}, {"skopt", "scikit-optimize"},
    {"skrf", "scikit-rf"}, {"sksparse", "scikit-sparse"}, {"sksurv", "scikit-survival"},
    {"slugify", "python-slugify"}, {"snappy", "python-snappy"}, {"snowflake", "snowflake-connector-python"},
    {"snowflake.connector", "snowflake-connector-python"}, {"socketio", "python-socketio"}, {"socks", "PySocks"},
    {"speech_recognition", "SpeechRecognition"}, {"stdnum", "python-stdnum"}, {"storages", "django-storages"},
    {"strawberry", "strawberry-graphql"}, {"suds", "suds-community"}, {"surprise", "scikit-surprise"},
    {"tabula", "tabula-py"}, {"talib", "TA-Lib"}, {"telebot", "pyTelegramBotAPI"},
    {"telegram", "python-telegram-bot"}, {"tlz", "toolz"}, {"tree", "dm-tree"}, {"umap", "umap-learn"},
    {"usb", "pyusb"}, {"usb1", "libusb1"}, {"vcr", "vcrpy"}, {"vlc", "python-vlc"}, {"weaviate", "weaviate-client"},
    {"websocket", "websocket-client"}, {"whisper", "openai-whisper"}, {"whois", "python-whois"}, {"winrm", "pywinrm"},
    {"wx", "wxPython"}, {"xdg", "pyxdg"}, {"xdist", "pytest-xdist"}, {"yaml", "PyYAML"}, {"yara", "yara-python"},
    {"z3", "z3-solver"}, {"zmq", "pyzmq"}, {"zope.interface", "zope.interface"}, {"zstd", "zstandard"},
    {"zxingcpp", "zxing-cpp"},
};

/* Of Python 2, or gone since: and the module that took its place. */
const struct kr_import_row kr_import_old[] = {
    {"BaseHTTPServer", "http.server"}, {"ConfigParser", "configparser"}, {"Cookie", "http.cookies"},
    {"HTMLParser", "html.parser"}, {"Queue", "queue"}, {"SimpleHTTPServer", "http.server"},
    {"SocketServer", "socketserver"}, {"StringIO", "io"}, {"Tkinter", "tkinter"}, {"UserDict", "collections"},
    {"__builtin__", "builtins"}, {"cPickle", "pickle"}, {"cStringIO", "io"}, {"commands", "subprocess"},
    {"cookielib", "http.cookiejar"}, {"copy_reg", "copyreg"}, {"dummy_thread", "_thread"}, {"exceptions", "builtins"},
    {"htmlentitydefs", "html.entities"}, {"httplib", "http.client"}, {"imp", "importlib"}, {"md5", "hashlib"},
    {"sets", "builtins"}, {"sha", "hashlib"}, {"thread", "threading"}, {"urllib2", "urllib.request"},
    {"urlparse", "urllib.parse"}, {"xmlrpclib", "xmlrpc.client"},
};
/* clang-format on */

const size_t kr_import_rows_count = sizeof kr_import_rows / sizeof *kr_import_rows;
const size_t kr_import_old_count = sizeof kr_import_old / sizeof *kr_import_old;
