from tests.helpers.data_folder import any_size as any_size
from tests.helpers.data_folder import folder as folder
from tests.helpers.data_folder import put as put
